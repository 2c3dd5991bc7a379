//! Shows a bar while a device is measured, and ends the measurement at Ctrl-C.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use aquifer_probe::control::Control;
use indicatif::{ProgressBar, ProgressStyle};

/// Steps of the bar for each second of the estimate.
const STEPS_PER_S: f64 = 10.0;

/// The bar of a run; a terminal shows it, nothing else does.
#[derive(Debug)]
pub struct Watch {
    bar: ProgressBar,
    stopped: Arc<AtomicBool>,
    part: Mutex<Part>,
}

/// The part that is running: when it began, and where the bar is then and will be after it.
#[derive(Debug)]
struct Part {
    begun: Instant,
    from_s: f64,
    to_s: f64,
}

impl Watch {
    /// Shows a bar for a run of about `total_s` seconds, which Ctrl-C ends.
    ///
    /// # Errors
    /// When the signal cannot be caught.
    pub fn new(total_s: f64) -> Result<Self, ctrlc::Error> {
        let stopped = Arc::new(AtomicBool::new(false));
        let of_handler = Arc::clone(&stopped);
        ctrlc::set_handler(move || of_handler.store(true, Relaxed))?;
        let bar = ProgressBar::new((total_s * STEPS_PER_S) as u64);
        let template = "{elapsed_precise} [{bar:30}] {eta} left: {msg}";
        bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
        bar.enable_steady_tick(Duration::from_millis(250));
        let part = Mutex::new(Part { begun: Instant::now(), from_s: 0.0, to_s: 0.0 });
        Ok(Watch { bar, stopped, part })
    }

    fn show(&self) {
        let Ok(part) = self.part.lock() else { return };
        let at_s = (part.from_s + part.begun.elapsed().as_secs_f64()).min(part.to_s);
        self.bar.set_position((at_s * STEPS_PER_S) as u64);
    }
}

impl Control for Watch {
    fn is_stopped(&self) -> bool {
        self.show();
        self.stopped.load(Relaxed)
    }

    fn begins(&self, part: &str, part_s: f64, done_s: f64, _total_s: f64) {
        self.bar.set_message(part.to_owned());
        if let Ok(mut running) = self.part.lock() {
            *running = Part { begun: Instant::now(), from_s: done_s, to_s: done_s + part_s };
        }
        self.show();
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
