//! A long random run of the heap against a model in plain memory.
//!
//! Prints `DIFFERENCES: 0` and ends with 0 if heap and model agreed to the end.

use std::process::ExitCode;
use std::sync::Mutex;
use std::time::Duration;

use aquifer::units::{format_size, parse_size};
use aquifer::{Error, Options};
use aquifer_soak::{Config, OBJECT_BYTES_MEAN, Snapshot, run};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};

/// A long random run of the heap against a model in plain memory.
#[derive(Parser)]
#[command(after_help = "AQUIFER_POLICY, AQUIFER_FAULTS and AQUIFER_FLASH are used as by every program.\n\n\
        Examples:\n  soak --ops 200M\n  soak --ops 1000M --minutes 30 --seed 7 --threads 16\n  \
        AQUIFER_POLICY=sieve AQUIFER_FAULTS=thread soak --ops 10M")]
struct Arguments {
    /// Operations: a number with K, M or G (powers of 1000).
    #[arg(long, default_value = "200M", value_parser = parse_count)]
    ops: u64,
    /// Decides everything but the order in which threads meet.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// RAM budget of the heap.
    #[arg(long, default_value = "16M", value_parser = parse_size)]
    ram: u64,
    /// Data in units of the budget.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=64))]
    ratio: u64,
    /// Stop after this time, in minutes, if the operations are not done.
    #[arg(long)]
    minutes: Option<u64>,
}

fn parse_count(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        other => return Err(format!("'{other}' is no unit; K, M and G are")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("'{text}' is no count, as 200M is"))?;
    number.checked_mul(unit).ok_or_else(|| format!("'{text}' is too many"))
}

impl Arguments {
    fn config(&self) -> Result<Config, Error> {
        let data = self.ram * self.ratio;
        Ok(Config {
            options: Options::from_env()?.ram_bytes(self.ram).flash_bytes(data / 2 * 3 + (8 << 20)),
            operations: self.ops,
            threads: usize::from(self.threads),
            objects: (data / OBJECT_BYTES_MEAN) as usize,
            seed: self.seed,
            operations_per_phase: (self.ops / 20).clamp(1, 1_000_000),
            time_limit: self.minutes.map(|minutes| Duration::from_secs(minutes * 60)),
        })
    }
}

fn bar(operations: u64) -> ProgressBar {
    let bar = ProgressBar::new(operations);
    let template = "{elapsed_precise} [{bar:30}] {human_pos}/{human_len} operations, {eta} left, {msg}";
    bar.set_style(ProgressStyle::with_template(template).expect("a valid template"));
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let bar = bar(arguments.ops);
    let shown = Mutex::new(bar.clone());
    let observe = |snapshot: &Snapshot| {
        let bar = shown.lock().expect("nobody panics");
        bar.set_position(snapshot.operations);
        let data = format_size(snapshot.stats.object_bytes);
        bar.set_message(format!("{data} of objects, {} differences", snapshot.differences));
    };
    let outcome = arguments.config().and_then(|config| run(&config, &observe));
    bar.finish_and_clear();
    match outcome {
        Ok(outcome) => {
            println!("{outcome}\nDIFFERENCES: {}", outcome.differences);
            if outcome.differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("soak: {error}");
            ExitCode::from(2)
        }
    }
}
