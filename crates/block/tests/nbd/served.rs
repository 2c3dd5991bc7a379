//! A server on a port of its own, with what it said.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use aquifer_block::nbd::{Listener, Server, Settings, Stopper};
use aquifer_device::{Device, DeviceError, MemoryDevice};

/// Bytes of the devices of these tests.
pub const DEVICE_BYTES: u64 = 64 << 20;

pub struct Served {
    pub address: SocketAddr,
    pub stopper: Stopper,
    sentences: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<Result<(), DeviceError>>>,
}

impl Served {
    pub fn new(device: Arc<dyn Device>) -> Self {
        Self::with(device, Settings::default())
    }

    pub fn memory() -> Self {
        Self::new(Arc::new(MemoryDevice::new(DEVICE_BYTES, 512)))
    }

    pub fn with(device: Arc<dyn Device>, settings: Settings) -> Self {
        let sentences = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&sentences);
        let report = move |sentence: &str| heard.lock().unwrap().push(sentence.to_owned());
        let listener = Listener::tcp("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = listener.address().unwrap();
        let server = Server::new(device, "aquifer", listener, settings, Arc::new(report));
        let stopper = server.stopper();
        let thread = Some(std::thread::spawn(|| server.serve()));
        Served { address, stopper, sentences, thread }
    }

    /// Waits until the server has said something with `part` in it.
    pub fn hear(&self, part: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let sentences = self.sentences.lock().unwrap().clone();
            if sentences.iter().any(|sentence| sentence.contains(part)) {
                return;
            }
            assert!(Instant::now() < deadline, "no '{part}' in {sentences:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How many sentences have `part` in them.
    pub fn times(&self, part: &str) -> usize {
        self.sentences.lock().unwrap().iter().filter(|sentence| sentence.contains(part)).count()
    }

    /// Ends the server in order.
    pub fn end(mut self) -> Result<(), DeviceError> {
        self.stopper.stop();
        self.thread.take().unwrap().join().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stopper.stop();
    }
}
