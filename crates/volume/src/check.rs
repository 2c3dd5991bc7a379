//! Proof that a volume fits together: every page that files have is on flash as it was written, each segment is counted right, and names and inodes
//! agree.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use crate::error::{Result, VolumeError};
use crate::inode::{Inode, Kind};
use crate::key::{Ino, PageKey};
use crate::volume::Volume;
use crate::word::{PAGE_BYTES, Word};

/// How thorough a check is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Depth {
    /// Tables and names.
    Metadata,
    /// All bytes as well.
    Contents,
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Files, folders, and what else has a name.
    pub files: u64,
    /// Pages on flash.
    pub pages: u64,
    /// Nodes of the table on flash.
    pub nodes: u64,
    /// What is wrong, each with where.
    pub problems: Vec<String>,
    /// Files whose bytes are damaged.
    pub damaged: Vec<Ino>,
}

/// More problems than this are not listed.
const PROBLEMS_MAX: usize = 1000;

impl Findings {
    fn note(&mut self, problem: String) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }
}

impl Volume {
    /// Checks the whole volume, after all changes went to flash. `visit` is told how many files were looked at, of how many.
    ///
    /// # Errors
    /// The check could not be done. What is wrong with the volume is in the findings.
    ///
    /// # Context
    /// Reads all of the table; nobody commits meanwhile.
    pub fn check(&self, depth: Depth, mut visit: impl FnMut(u64, u64)) -> Result<Findings> {
        let core = self.core();
        let _names = self.read_names();
        let mut writer = core.lock_writer();
        if core.allow_changes().is_ok() {
            core.commit_with(&mut writer)?;
        }
        let mut findings = Findings::default();
        let mut counted = crate::segments::Segments::new(core.flash.medium());
        let header = core.inodes_header()?;
        let mut inodes = HashMap::new();
        for number in 0..header.next_new {
            let ino = Ino(number);
            visit(number.into(), header.next_new.into());
            self.check_pages(ino, depth, &mut counted, &mut findings)?;
            match core.inode(ino) {
                Ok(inode) => {
                    inodes.insert(ino, inode);
                }
                Err(VolumeError::NotFound) => {}
                Err(error) => findings.note(format!("{ino}: {error}")),
            }
        }
        for (segment, (&known, &found)) in writer.segments.units().iter().zip(counted.units()).enumerate() {
            if known != found {
                findings.note(format!(
                    "segment {segment} should hold {known} units that are needed, {found} were found"
                ));
            }
        }
        if self.recovered().damaged > 0 {
            findings.note(format!(
                "{} blocks of the log were damaged when the volume was opened: {} pages that they wrote are lost",
                self.recovered().damaged,
                self.recovered().lost_pages.len()
            ));
        }
        let found = inodes.len() as u64;
        if found != u64::from(header.files) {
            findings.note(format!("there should be {} files, {found} were found", header.files));
        }
        findings.files = inodes.values().filter(|inode| inode.kind != Kind::Xattrs).count() as u64;
        self.check_names(&inodes, &mut findings)?;
        self.check_lists(&header, &inodes, &mut findings)?;
        Ok(findings)
    }

    fn check_pages(
        &self,
        ino: Ino,
        depth: Depth,
        counted: &mut crate::segments::Segments,
        findings: &mut Findings,
    ) -> Result<()> {
        let core = self.core();
        let mut bytes = [0; PAGE_BYTES];
        let mut problems = Vec::new();
        let mut pages = Vec::new();
        let walked = core.table.walk(&core.flash, ino, &mut |key: PageKey, word: Word| {
            counted.add(word);
            if word != Word::LOST && findings.nodes + findings.pages >= core.flash.medium().geometry().pages()
            {
                return Err(VolumeError::Corrupt("its table names pages more than once".into()));
            }
            if key.is_node() {
                findings.nodes += 1;
            } else {
                findings.pages += 1;
                pages.push(key.index());
            }
            if (depth == Depth::Contents || word == Word::LOST)
                && let Err(error) = core.flash.read(key, word, &mut bytes)
            {
                problems.push(error.to_string());
            }
            Ok(())
        });
        match walked {
            Ok(()) => {}
            Err(error @ (VolumeError::Damaged { .. } | VolumeError::Device(_))) => {
                problems.push(format!("{ino}: {error}"));
            }
            Err(error) => return Err(error),
        }
        if !problems.is_empty() {
            findings.damaged.push(ino);
        }
        problems.into_iter().for_each(|problem| findings.note(problem));
        if ino >= Ino::ROOT_FOLDER {
            let inode = core.inode(ino).ok();
            let stored = pages.len() as u64;
            let expected = inode.map_or(0, |inode| inode.pages);
            if stored != expected {
                findings.note(format!("{ino} should have {expected} pages on flash, has {stored}"));
            }
            let end = inode.map_or(0, |inode| inode.end_page());
            if let Some(behind) = pages.iter().find(|&&page| u64::from(page) >= end) {
                findings.note(format!("{ino} ends with page {end}, but page {behind} is on flash"));
            }
        }
        Ok(())
    }

    /// Each name stands for an inode, each inode has as many names as it says.
    fn check_names(&self, inodes: &HashMap<Ino, Inode>, findings: &mut Findings) -> Result<()> {
        let mut links: HashMap<Ino, u32> = HashMap::new();
        for (&folder, _) in inodes.iter().filter(|(_, inode)| inode.kind == Kind::Folder) {
            *links.entry(folder).or_default() += 1;
            let mut seen = HashSet::new();
            let listed = self.list_unlocked(folder, |entry| {
                let name = String::from_utf8_lossy(entry.name).into_owned();
                match inodes.get(&entry.ino) {
                    None => findings
                        .note(format!("'{name}' in {folder} stands for {}, which does not exist", entry.ino)),
                    Some(inode) if inode.kind != entry.kind => {
                        findings.note(format!(
                            "'{name}' in {folder} says that {} is a {:?}, it is a {:?}",
                            entry.ino, entry.kind, inode.kind
                        ));
                    }
                    Some(inode) => {
                        *links.entry(entry.ino).or_default() += 1;
                        if inode.kind == Kind::Folder {
                            *links.entry(folder).or_default() += 1;
                            if inode.parent != folder {
                                findings.note(format!(
                                    "{} is in {folder}, but says it is in {}",
                                    entry.ino, inode.parent
                                ));
                            }
                        }
                    }
                }
                if !seen.insert(entry.name.to_vec()) {
                    findings.note(format!("'{name}' is twice in {folder}"));
                }
                ControlFlow::Continue(())
            });
            if let Err(error) = listed {
                findings.note(format!("{folder}: {error}"));
                findings.damaged.push(folder);
            }
        }
        *links.entry(Ino::ROOT_FOLDER).or_default() += 1;
        self.check_xattrs(inodes, &mut links, findings);
        for (ino, inode) in inodes {
            let found = links.get(ino).copied().unwrap_or(0);
            // A folder without a name that is still held has its own link only.
            let expected = if inode.kind == Kind::Folder && inode.links == 0 { 1 } else { inode.links };
            if found != expected {
                findings.note(format!("{ino} should have {expected} links, {found} were found"));
            }
        }
        Ok(())
    }

    /// Attributes that a file names are there and its own, and make sense. Each such inode has one link.
    fn check_xattrs(
        &self,
        inodes: &HashMap<Ino, Inode>,
        links: &mut HashMap<Ino, u32>,
        findings: &mut Findings,
    ) {
        for (&ino, inode) in inodes.iter().filter(|(_, inode)| inode.xattrs != 0) {
            let holder = Ino(inode.xattrs);
            if !inodes.get(&holder).is_some_and(|found| found.holds_xattrs_of(ino)) {
                findings
                    .note(format!("{ino} says that {holder} has its extended attributes, which it has not"));
                continue;
            }
            *links.entry(holder).or_default() += 1;
            // Bytes that cannot be read are named among the damaged files.
            match self.xattrs_of(ino, inode) {
                Err(VolumeError::Damaged { key, what }) if !findings.damaged.contains(&holder) => {
                    findings.note(VolumeError::Damaged { key, what }.to_string());
                    findings.damaged.push(holder);
                }
                _ => {}
            }
        }
    }

    /// Numbers that are free, and files without a name, are in their lists.
    fn check_lists(
        &self,
        header: &crate::inode::InodesHeader,
        inodes: &HashMap<Ino, Inode>,
        findings: &mut Findings,
    ) -> Result<()> {
        let nameless: HashSet<Ino> = inodes
            .iter()
            .filter(|(ino, inode)| inode.links == 0 && **ino != Ino::ROOT_FOLDER)
            .map(|(ino, _)| *ino)
            .collect();
        let mut listed = HashSet::new();
        let mut at = header.first_nameless;
        while at != 0 && listed.insert(Ino(at)) {
            at = inodes.get(&Ino(at)).map_or(0, |inode| inode.next);
        }
        if listed != nameless {
            findings.note(format!("files without a name are {nameless:?}, their list has {listed:?}"));
        }
        let mut free = HashSet::new();
        let mut at = header.first_free;
        while at != 0 && at < header.next_new && free.insert(Ino(at)) {
            at = self.core().next_free(Ino(at))?;
        }
        for number in Ino::FIRST_FREE.0..header.next_new {
            let ino = Ino(number);
            if inodes.contains_key(&ino) == free.contains(&ino) {
                findings.note(format!("{ino} is both used and free, or neither"));
            }
        }
        Ok(())
    }
}
