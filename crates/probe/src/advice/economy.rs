//! What the device is worth, and what machine to build.

use std::fmt::Write;

use aquifer_base::units::format_size;

use super::Assumptions;
use super::cells::{Direction, best_iops};
use crate::economics::{
    Mix, SAVVIO_15K, STUDY_DEVICES, arithmetic_mix, break_even_s, devices_for, harmonic_mix, speed_up,
};
use crate::report::{Pattern, Report, TargetKind};

/// Writing to a string cannot fail.
macro_rules! say {
    ($text:expr, $($part:tt)*) => { writeln!($text, $($part)*).expect("strings take everything") };
}

/// All sections, each with what it lacks.
pub(super) fn text(report: &Report, given: &Assumptions) -> String {
    let mut text = String::new();
    worth(&mut text, report, given);
    let page = format_size(given.page_bytes);
    let best = |direction| best_iops(report, Pattern::Random, direction, given.page_bytes);
    let Some((read_iops, write_iops)) = best(Direction::Read).zip(best(Direction::Write)) else {
        say!(
            text,
            "\nMachine: not measured: the report has no random reads and writes of {page}; --page chooses another size"
        );
        return text;
    };
    let mix = Mix { read_iops, write_iops, read_share: given.read_share };
    balance(&mut text, report, given, mix);
    amdahl(&mut text, given, mix);
    five_minutes(&mut text, given, read_iops);
    text
}

/// Size of the device in bytes, if it is known: that of a file system is not its device's.
fn capacity_bytes(report: &Report, given: &Assumptions) -> Option<u64> {
    let measured = matches!(report.target.kind, TargetKind::BlockDevice | TargetKind::Nand);
    given.capacity_bytes.or(measured.then_some(report.target.size_bytes)).filter(|&bytes| bytes > 0)
}

fn worth(text: &mut String, report: &Report, given: &Assumptions) {
    say!(text, "\nWorth");
    let Some(price) = given.price_eur else {
        say!(text, "  what a euro buys is not known without --price-eur");
        return;
    };
    for (name, direction) in [("reads", Direction::Read), ("writes", Direction::Write)] {
        match best_iops(report, Pattern::Random, direction, 4096) {
            Some(iops) => {
                say!(text, "  random {name} of 4 KiB: {iops:.0}/s, {:.2}/s for a euro", iops / price)
            }
            None => say!(text, "  random {name} of 4 KiB: not measured"),
        }
    }
    match capacity_bytes(report, given) {
        Some(bytes) => say!(text, "  {:.3} EUR/GB", price / (bytes as f64 / 1e9)),
        None => say!(
            text,
            "  EUR/GB is not known: the report is of files, not of the whole device; give --capacity"
        ),
    }
    for device in STUDY_DEVICES {
        if let Some((read, write)) = device.read_iops_per_eur().zip(device.write_iops_per_eur()) {
            say!(
                text,
                "  for comparison, {} in 2010: {read:.1} reads and {write:.1} writes/s for a euro",
                device.name
            );
        }
    }
}

fn balance(text: &mut String, report: &Report, given: &Assumptions, mix: Mix) {
    let (core, page) = (given.processor, format_size(given.page_bytes));
    let needed = core.iops(given.page_bytes);
    say!(
        text,
        "\nBalanced machine (8 MIPS for 1 MB/s; {} GHz, CPI {}, {:.0} % reads, pages of {page})",
        core.ghz,
        core.cycles_per_instruction,
        given.read_share * 100.0
    );
    say!(
        text,
        "  a core needs {:.0} MIPS / 8 = {:.1} MB/s = {needed:.0} IOPS",
        core.mips(),
        core.megabytes_per_s()
    );
    say!(
        text,
        "  the device has {:.0} reads/s and {:.0} writes/s, at their best depths",
        mix.read_iops,
        mix.write_iops
    );
    let harmonic = harmonic_mix(mix);
    let per_core = devices_for(needed, harmonic);
    say!(text, "  harmonic mix {harmonic:.0} IOPS: {per_core:.2} devices for a core");
    let arithmetic = arithmetic_mix(mix);
    say!(
        text,
        "  (arithmetic mix {arithmetic:.0} IOPS: {:.2}; no device reaches it, it is here to be compared with the study)",
        devices_for(needed, arithmetic)
    );
    match measured_mix(report, given) {
        Some(iops) => {
            say!(text, "  measured mix {iops:.0} IOPS: {:.2} devices for a core", devices_for(needed, iops))
        }
        None => say!(text, "  this mix itself: not measured"),
    }
    let cores = given.cores.unwrap_or(report.machine.cpus);
    let whole = (per_core * f64::from(cores)).ceil();
    let price = given.price_eur.map_or(String::new(), |price| format!(", EUR {:.0}", whole * price));
    say!(text, "  {cores} cores: {whole:.0} devices{price}");
}

/// The best rate of the mix that was asked for, to the percent.
fn measured_mix(report: &Report, given: &Assumptions) -> Option<f64> {
    let percent = (given.read_share * 100.0).round() as u8;
    let is_it =
        |percent_read: u8, bytes: u32| percent_read == percent && u64::from(bytes) == given.page_bytes;
    let found = report.mixes.iter().filter(|found| is_it(found.job.read_percent, found.job.block_bytes));
    found
        .map(crate::report::Measurement::iops)
        .filter(|iops| iops.is_finite() && *iops > 0.0)
        .reduce(f64::max)
}

fn amdahl(text: &mut String, given: &Assumptions, mix: Mix) {
    let disk = Mix { read_iops: SAVVIO_15K.read_iops, write_iops: SAVVIO_15K.write_iops, ..mix };
    let factor = harmonic_mix(mix) / harmonic_mix(disk);
    say!(text, "\nSpeed-up (Amdahl)");
    say!(
        text,
        "  a program that spends {:.0} % of its time in I/O on a {} becomes {:.2} times as fast: the device has {factor:.1} times its IOPS",
        given.io_share * 100.0,
        SAVVIO_15K.name,
        speed_up(given.io_share, factor)
    );
    say!(
        text,
        "  at most {:.2} times with a device that takes no time",
        speed_up(given.io_share, f64::INFINITY)
    );
}

fn five_minutes(text: &mut String, given: &Assumptions, read_iops: f64) {
    say!(text, "\nFive-minute rule");
    let Some((price, ram)) = given.price_eur.zip(given.ram_eur_per_gb) else {
        say!(text, "  the break-even interval is not known without --price-eur and --ram-eur-per-gb");
        return;
    };
    let seconds = break_even_s(given.page_bytes, read_iops, price, ram / 1000.0);
    say!(
        text,
        "  a page of {} that is used less often than every {seconds:.1} s is cheaper on this device than in RAM",
        format_size(given.page_bytes)
    );
    say!(
        text,
        "  ({:.1} pages in a MB / {read_iops:.0} reads/s) x (EUR {price} / EUR {} a MB)",
        1e6 / given.page_bytes as f64,
        ram / 1000.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::advice::example::report;

    fn has(text: &str, parts: &[&str]) {
        parts.iter().for_each(|part| assert!(text.contains(part), "{part} is not in\n{text}"));
    }

    #[test]
    fn everything_that_is_known_is_said() {
        let given =
            Assumptions { price_eur: Some(100.0), ram_eur_per_gb: Some(4.0), ..Assumptions::default() };
        let text = text(&report(), &given);
        has(&text, &["100000/s, 1000.00/s for a euro", "25000/s, 250.00/s for a euro", "0.100 EUR/GB"]);
        has(&text, &["1524 MIPS / 8 = 190.5 MB/s = 23251 IOPS", "50000 reads/s and 12500 writes/s"]);
        // 1 / (0.75 / 12 500 + 0.25 / 50 000) = 15 385; 23 251 / 15 385 = 1.51, and the mean of the rates is 21 875.
        has(
            &text,
            &[
                "harmonic mix 15385 IOPS: 1.51",
                "arithmetic mix 21875 IOPS: 1.06",
                "measured mix 14000 IOPS: 1.66",
            ],
        );
        has(&text, &["4 cores: 7 devices, EUR 700"]);
        // 15 385 by 311.1 of the disk is 49.45; 1 / (0.4 + 0.6 / 49.45).
        has(&text, &["2.43 times as fast: the device has 49.5 times", "at most 2.50 times"]);
        // 122.07 / 50 000 x 100 / 0.004.
        has(&text, &["less often than every 61.0 s"]);
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        let mut report = report();
        report.target.kind = TargetKind::Directory;
        report.mixes.clear();
        let price = Assumptions { price_eur: Some(1.0), ..Assumptions::default() };
        has(
            &text(&report, &price),
            &["EUR/GB is not known", "this mix itself: not measured", "not known without --price-eur and"],
        );
        has(&text(&report, &Assumptions { capacity_bytes: Some(2_000_000_000), ..price }), &["0.500 EUR/GB"]);
        let other_page = Assumptions { page_bytes: 16_384, ..price };
        has(
            &text(&report, &other_page),
            &["Machine: not measured: the report has no random reads and writes of 16 KiB"],
        );
        has(&text(&report, &Assumptions::default()), &["not known without --price-eur\n"]);
    }
}
