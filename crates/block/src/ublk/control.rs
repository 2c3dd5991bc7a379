//! Commands to the control device.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::{from_mut, from_ref};

use io_uring::squeue::Entry128;
use io_uring::{IoUring, cqueue, opcode, types};

use super::abi::{CONTROL_PATH, ControlCommand, DeviceInfo, NO_QUEUE, Parameters, control};
use super::error::UblkError;

/// Bytes of a command in an entry of the ring.
const COMMAND_BYTES: usize = 80;

/// The control device. One command at a time, each until it is answered.
pub struct Control {
    file: File,
    ring: IoUring<Entry128, cqueue::Entry>,
}

impl Control {
    /// Opens the control device.
    ///
    /// # Errors
    /// [`UblkError::NoDriver`], [`UblkError::NoRights`], [`UblkError::NoRing`].
    pub fn open() -> Result<Self, UblkError> {
        let opened = OpenOptions::new().read(true).write(true).open(CONTROL_PATH);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => UblkError::NoRights(error),
            // Without the module the file is missing, or stands for a driver that is not there.
            _ => UblkError::NoDriver,
        })?;
        let ring = IoUring::builder().build(4).map_err(UblkError::NoRing)?;
        Ok(Control { file, ring })
    }

    /// Makes a device like `wished`; gives it as it is, with its number.
    pub fn add(&mut self, wished: DeviceInfo) -> Result<DeviceInfo, UblkError> {
        let mut info = wished;
        let command = with(info.id, from_mut(&mut info).expose_provenance(), size_of::<DeviceInfo>());
        // SAFETY: the command's address is that of `info`, which lives until the kernel has answered.
        unsafe { self.ask("ADD_DEV", control::ADD_DEV, command) }?;
        Ok(info)
    }

    /// What there is to know of a device.
    pub fn info(&mut self, id: u32) -> Result<DeviceInfo, UblkError> {
        let mut info = DeviceInfo::default();
        let command = with(id, from_mut(&mut info).expose_provenance(), size_of::<DeviceInfo>());
        // SAFETY: as in `add`.
        unsafe { self.ask("GET_DEV_INFO", control::GET_DEV_INFO, command) }?;
        Ok(info)
    }

    /// Says what a device is like.
    pub fn set(&mut self, id: u32, parameters: &Parameters) -> Result<(), UblkError> {
        let command = with(id, from_ref(parameters).expose_provenance(), size_of::<Parameters>());
        // SAFETY: the command's address is that of `parameters`, which the kernel reads and which live until it has answered.
        unsafe { self.ask("SET_PARAMS", control::SET_PARAMS, command) }
    }

    /// Shows a device whose queues are all served by this process. The kernel reads from it before it answers.
    pub fn start(&mut self, id: u32) -> Result<(), UblkError> {
        let command = ControlCommand { data: std::process::id().into(), ..with(id, 0, 0) };
        // SAFETY: the command has no address.
        unsafe { self.ask("START_DEV", control::START_DEV, command) }
    }

    /// Hides a device, once requests that have begun are answered; its queues are told.
    pub fn stop(&mut self, id: u32) -> Result<(), UblkError> {
        // SAFETY: the command has no address.
        unsafe { self.ask("STOP_DEV", control::STOP_DEV, with(id, 0, 0)) }
    }

    /// Takes a device away that this process made and stopped. Before Linux 6.9 this waits until nobody has it open.
    pub fn delete(&mut self, id: u32) -> Result<(), UblkError> {
        match self.delete_at_once(id) {
            // SAFETY: the command has no address.
            Err(UblkError::OldKernel { .. }) => unsafe {
                self.ask("DEL_DEV", control::DEL_DEV, with(id, 0, 0))
            },
            outcome => outcome,
        }
    }

    /// Takes a device away, and waits for nobody.
    pub fn delete_at_once(&mut self, id: u32) -> Result<(), UblkError> {
        // SAFETY: the command has no address.
        unsafe { self.ask("DEL_DEV_ASYNC", control::DEL_DEV_ASYNC, with(id, 0, 0)) }
    }

    /// Has the kernel do a command, and waits for its answer.
    ///
    /// # Safety
    /// An address in the command is that of as many bytes as it says, of this thread alone, until this returns.
    unsafe fn ask(
        &mut self,
        name: &'static str,
        number: u32,
        command: ControlCommand,
    ) -> Result<(), UblkError> {
        let file = types::Fd(self.file.as_raw_fd());
        let entry = opcode::UringCmd80::new(file, number).cmd(bytes_of(&command)).build();
        // SAFETY: the caller promises the bytes at the command's address; the command itself is copied into the entry.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.map_err(|_| UblkError::NoRing(io::Error::other("its queue is full")))?;
        loop {
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                // Nothing is returned before the kernel has answered: it may still use the address.
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => self.give_up(name, &error),
            }
            if let Some(answer) = self.ring.completion().next() {
                return match answer.result() {
                    result if result < 0 => Err(UblkError::of_command(name, -result)),
                    _ => Ok(()),
                };
            }
        }
    }

    /// A ring that does not answer has memory of ours that nobody can take back.
    fn give_up(&self, name: &str, error: &io::Error) -> ! {
        eprintln!("aquifer: io_uring failed during {name}: {error}");
        std::process::abort();
    }
}

/// A command about a device, with what lies at an address.
fn with(id: u32, address: usize, len_bytes: usize) -> ControlCommand {
    ControlCommand {
        id,
        queue: NO_QUEUE,
        len_bytes: len_bytes as u16,
        address: address as u64,
        ..ControlCommand::default()
    }
}

/// The command in the room that an entry has for it.
fn bytes_of(command: &ControlCommand) -> [u8; COMMAND_BYTES] {
    let ControlCommand { id, queue, len_bytes, address, data, path_len_bytes, .. } = *command;
    let mut bytes = [0; COMMAND_BYTES];
    bytes[..4].copy_from_slice(&id.to_ne_bytes());
    bytes[4..6].copy_from_slice(&queue.to_ne_bytes());
    bytes[6..8].copy_from_slice(&len_bytes.to_ne_bytes());
    bytes[8..16].copy_from_slice(&address.to_ne_bytes());
    bytes[16..24].copy_from_slice(&data.to_ne_bytes());
    bytes[24..26].copy_from_slice(&path_len_bytes.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn the_bytes_are_where_the_structure_has_them() {
        let command = ControlCommand {
            id: 0x0102_0304,
            queue: 0x0506,
            len_bytes: 0x0708,
            address: 0x1112_1314_1516_1718,
            data: 0x2122_2324_2526_2728,
            path_len_bytes: 0x3132,
            ..ControlCommand::default()
        };
        let bytes = bytes_of(&command);
        assert_eq!(bytes[offset_of!(ControlCommand, id)..][..4], command.id.to_ne_bytes());
        assert_eq!(bytes[offset_of!(ControlCommand, queue)..][..2], command.queue.to_ne_bytes());
        assert_eq!(bytes[offset_of!(ControlCommand, len_bytes)..][..2], command.len_bytes.to_ne_bytes());
        assert_eq!(bytes[offset_of!(ControlCommand, address)..][..8], command.address.to_ne_bytes());
        assert_eq!(bytes[offset_of!(ControlCommand, data)..][..8], command.data.to_ne_bytes());
        let at = offset_of!(ControlCommand, path_len_bytes);
        assert_eq!(bytes[at..][..2], command.path_len_bytes.to_ne_bytes());
        assert!(bytes[at + 2..].iter().all(|&byte| byte == 0));
    }
}
