//! A connection to a database and its prepared statements.

use std::ffi::{CString, c_int};
use std::io;
use std::path::{Path, PathBuf};
use std::ptr;

use super::abi::{Api, DONE, Handle, OK, OPEN_OR_CREATE, OPEN_URI, ROW, StatementPointer, TRANSIENT};
use crate::error::{Error, Result};
use crate::workdir::c_path;

/// An open database; closed when dropped, after all of its statements.
pub struct Connection {
    api: Api,
    handle: Handle,
    path: PathBuf,
}

impl Connection {
    /// Opens the database at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without the library, [`Error::Io`] with its words.
    pub fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, OPEN_OR_CREATE)
    }

    /// Opens the database that a URI names, with its VFS and what that is told.
    ///
    /// # Errors
    /// As [`Connection::open`].
    pub fn open_uri(uri: &str) -> Result<Self> {
        Self::open_with(Path::new(uri), OPEN_OR_CREATE | OPEN_URI)
    }

    fn open_with(path: &Path, flags: c_int) -> Result<Self> {
        let mut connection = Self { api: Api::load()?, handle: ptr::null_mut(), path: path.to_owned() };
        let name = c_path(path);
        let (open, handle) = (connection.api.open, &mut connection.handle);
        // SAFETY: a terminated path, and a place for the handle, which is closed even if this fails.
        let code = unsafe { open(name.as_ptr(), handle, flags, ptr::null()) };
        connection.check("opening", code)?;
        Ok(connection)
    }

    /// Loads an extension, for all connections of this process if it says so.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if SQLite was built without extensions, [`Error::Io`] with SQLite's words.
    pub fn load_extension(&self, library: &Path) -> Result<()> {
        let (Some(enable), Some(load)) = (self.api.enable_extensions, self.api.load_extension) else {
            return Err(Error::Unavailable("this SQLite loads no extensions".to_owned()));
        };
        let name = c_path(library);
        // SAFETY: an open connection, a terminated path; no entry point and no message are wanted.
        let code = unsafe {
            enable(self.handle, 1);
            load(self.handle, name.as_ptr(), ptr::null(), ptr::null_mut())
        };
        self.check("loading an extension for", code)
    }

    /// Runs statements whose rows nobody wants.
    ///
    /// # Errors
    /// [`Error::Io`] with SQLite's words.
    pub fn execute(&self, sql: &str) -> Result<()> {
        let text = c_string(sql);
        // SAFETY: an open connection and a terminated string; neither callback nor message is wanted.
        let code = unsafe {
            (self.api.exec)(self.handle, text.as_ptr(), ptr::null(), ptr::null_mut(), ptr::null_mut())
        };
        self.check("executing SQL on", code)
    }

    /// A statement to be run many times.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn prepare(&self, sql: &str) -> Result<Statement<'_>> {
        let text = c_string(sql);
        let mut pointer = ptr::null_mut();
        let prepare = self.api.prepare;
        // SAFETY: an open connection, a terminated string, a place for the statement.
        let code = unsafe { prepare(self.handle, text.as_ptr(), -1, &mut pointer, ptr::null_mut()) };
        self.check("preparing SQL for", code)?;
        Ok(Statement { connection: self, pointer })
    }

    /// The first row's only number, of a statement that is run once.
    ///
    /// # Errors
    /// As [`Connection::execute`]; [`Error::WrongData`] without a row.
    pub fn number(&self, sql: &str) -> Result<i64> {
        self.prepare(sql)?.one(&[], |row| row.int(0))
    }

    /// One of the connection's counters, since it was opened.
    ///
    /// # Errors
    /// As [`Connection::execute`].
    pub fn status(&self, counter: c_int) -> Result<u64> {
        let (mut now, mut highest) = (0, 0);
        // SAFETY: an open connection and two places for numbers.
        let code = unsafe { (self.api.status)(self.handle, counter, &mut now, &mut highest, 0) };
        self.check("counting on", code)?;
        Ok(u64::from(now.cast_unsigned()))
    }

    /// The library's version.
    pub fn version(&self) -> String {
        self.api.version()
    }

    fn check(&self, doing: &'static str, code: c_int) -> Result<()> {
        if code == OK { Ok(()) } else { Err(self.failed(doing)) }
    }

    fn failed(&self, doing: &'static str) -> Error {
        Error::io(doing, &self.path)(io::Error::other(self.api.message(self.handle)))
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: the handle came from open, or is null, which is allowed; statements borrow the connection, so none is left.
        unsafe { (self.api.close)(self.handle) };
    }
}

/// What stands for a question mark.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A number.
    Int(i64),
    /// Text.
    Text(&'a str),
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Self {
        Self::Text(text)
    }
}

/// A prepared statement; between two calls it stands at its beginning.
pub struct Statement<'c> {
    connection: &'c Connection,
    pointer: StatementPointer,
}

/// The row at which a statement stands.
pub struct Row<'s>(&'s Statement<'s>);

impl Statement<'_> {
    /// Runs it to its end.
    ///
    /// # Errors
    /// [`Error::Io`] with SQLite's words.
    pub fn run(&mut self, values: &[Value<'_>]) -> Result<()> {
        self.each(values, |_| ())
    }

    /// Runs it and shows each of its rows.
    ///
    /// # Errors
    /// As [`Statement::run`].
    pub fn each(&mut self, values: &[Value<'_>], mut see: impl FnMut(Row<'_>)) -> Result<()> {
        for (number, value) in (1..).zip(values) {
            self.bind(number, *value)?;
        }
        let end = loop {
            // SAFETY: the statement is live.
            match unsafe { (self.connection.api.step)(self.pointer) } {
                ROW => see(Row(self)),
                DONE => break Ok(()),
                _ => break Err(self.connection.failed("running SQL on")),
            }
        };
        // SAFETY: the statement is live. What reset returns is what step returned.
        unsafe { (self.connection.api.reset)(self.pointer) };
        end
    }

    /// What `look` finds in the last of its rows; none without rows.
    ///
    /// # Errors
    /// As [`Statement::run`].
    pub fn last<T>(&mut self, values: &[Value<'_>], look: impl Fn(Row<'_>) -> T) -> Result<Option<T>> {
        let mut found = None;
        self.each(values, |row| found = Some(look(row)))?;
        Ok(found)
    }

    /// What `look` finds in the row that must be there.
    ///
    /// # Errors
    /// As [`Statement::run`]; [`Error::WrongData`] without a row.
    pub fn one<T>(&mut self, values: &[Value<'_>], look: impl Fn(Row<'_>) -> T) -> Result<T> {
        let what = || format!("a row that was written is not there: {values:?}");
        self.last(values, look)?.ok_or_else(|| Error::WrongData { peer: "SQLite".to_owned(), what: what() })
    }

    fn bind(&mut self, number: c_int, value: Value<'_>) -> Result<()> {
        let api = &self.connection.api;
        let code = match value {
            // SAFETY: the statement is live; a number without a question mark is an error, no harm.
            Value::Int(int) => unsafe { (api.bind_int)(self.pointer, number, int) },
            Value::Text(text) => {
                let bytes = c_int::try_from(text.len()).unwrap_or(c_int::MAX);
                // SAFETY: as above, with the length of the text, which is copied.
                unsafe { (api.bind_text)(self.pointer, number, text.as_ptr().cast(), bytes, TRANSIENT) }
            }
        };
        self.connection.check("binding a value for", code)
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement is live, and its connection open.
        unsafe { (self.connection.api.finalize)(self.pointer) };
    }
}

impl Row<'_> {
    /// The number in a column, from 0.
    pub fn int(&self, column: c_int) -> i64 {
        // SAFETY: the statement stands at a row as long as this lives; columns that are not there give 0.
        unsafe { (self.0.connection.api.column_int)(self.0.pointer, column) }
    }

    /// The text in a column, from 0.
    pub fn text(&self, column: c_int) -> String {
        let api = &self.0.connection.api;
        // SAFETY: the statement stands at a row as long as this lives.
        let text = unsafe { (api.column_text)(self.0.pointer, column) };
        if text.is_null() {
            return String::new();
        }
        // SAFETY: the text has as many bytes as SQLite says, until the statement moves on.
        let bytes = unsafe {
            let length = (api.column_bytes)(self.0.pointer, column);
            std::slice::from_raw_parts(text.cast::<u8>(), usize::try_from(length).unwrap_or(0))
        };
        String::from_utf8_lossy(bytes).into_owned()
    }
}

/// SQL of ours has no zero byte.
fn c_string(sql: &str) -> CString {
    CString::new(sql).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let connection = match Connection::open(Path::new(":memory:")) {
            Err(Error::Unavailable(reason)) => return println!("SKIP {reason}"),
            opened => opened.expect("memory is there"),
        };
        connection.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, s TEXT)").expect("new");
        let mut insert = connection.prepare("INSERT INTO t VALUES (?, ?)").expect("right");
        for (number, text) in [(3, "drei"), (1, ""), (-7, "mínus")] {
            insert.run(&[number.into(), text.into()]).expect("a new key");
        }
        let refused = insert.run(&[3.into(), "again".into()]).expect_err("the key is there");
        assert!(refused.to_string().contains("UNIQUE"), "{refused}");
        let mut rows = Vec::new();
        let mut select = connection.prepare("SELECT n, s FROM t WHERE n < ? ORDER BY n").expect("right");
        select.each(&[2.into()], |row| rows.push((row.int(0), row.text(1)))).expect("rows");
        assert_eq!(rows, [(-7, "mínus".to_owned()), (1, String::new())]);
        assert_eq!(select.last(&[2.into()], |row| row.int(0)).expect("rows"), Some(1));
        assert!(matches!(select.one(&[Value::Int(-8)], |_| ()), Err(Error::WrongData { .. })));
        assert_eq!(connection.number("SELECT count(*) FROM t").expect("a row"), 3);
        assert!(connection.prepare("SELECT nothing").is_err());
    }
}
