//! Somebody who uses the volume while others attack it.

use std::sync::mpsc::channel;

use super::*;

/// Pages of the victim's file.
const OWN_PAGES: usize = 40;

/// A client with a file of its own, of which each round writes some bytes by calls and others by stores.
pub struct Victim {
    client: Arc<Client>,
    file: aquifer_volume::serve::RemoteFile,
    mapping: RemoteMapping,
    round: u8,
}

impl Victim {
    /// A client with the file `victim`, which nobody else may use.
    pub fn new(rig: &Rig) -> Self {
        let client = Client::connect(&rig.socket).expect("connect");
        let flags = open::READ | open::WRITE | open::CREATE;
        let file = client.open(b"victim", flags, 0o600).expect("open");
        file.write(0, &[1; OWN_PAGES * PAGE_BYTES]).expect("write");
        let mapping = file.map(0, OWN_PAGES * PAGE_BYTES, Protection::Write).expect("map");
        let mut victim = Victim { client, file, mapping, round: 0 };
        victim.go_on();
        victim
    }

    /// Changes bytes, makes them durable and reads all.
    pub fn go_on(&mut self) {
        let round = self.round.wrapping_add(1);
        in_time("the victim goes on", || {
            for page in 0..OWN_PAGES {
                let at = page * PAGE_BYTES;
                assert_eq!(load(&self.mapping, at + 9), self.round.max(1), "page {page}");
                store(&self.mapping, at + 9, round);
                self.file.write(at as u64 + 20, &[round; 3]).expect("write");
            }
            self.client.sync().expect("sync");
            let mut bytes = vec![0; OWN_PAGES * PAGE_BYTES];
            assert_eq!(self.file.read(0, &mut bytes).expect("read"), bytes.len());
            for page in bytes.chunks(PAGE_BYTES) {
                assert_eq!((page[8], page[9], page[10], &page[20..23]), (1, round, 1, &[round; 3][..]));
            }
        });
        self.round = round;
    }

    /// Goes on once more, and sees that the volume is whole.
    pub fn end(mut self, rig: &Rig) {
        self.go_on();
        let volume = &rig.volume;
        in_time("the check", || check_settled(volume));
    }
}

/// What `work` gives, unless it takes so long that it hangs.
pub fn in_time<T: Send>(what: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (says, hears) = channel();
        scope.spawn(move || says.send(work()));
        match hears.recv_timeout(TOO_LONG) {
            Ok(outcome) => outcome,
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: failed"),
            Err(_) => {
                // The scope would wait for what hangs.
                eprintln!("{what}: hangs");
                std::process::exit(101);
            }
        }
    })
}
