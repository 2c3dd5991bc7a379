//! The study's own arithmetic, done again.
//!
//! Source of all figures that are called the study's: Petrov, Gottstein, Ivanov, Almeida, Buchmann: Using flash SSDs as primary database
//! storage, slides of 6 November 2010.

use std::fmt::Write;

use super::{
    INTEL_X25_E, Mix, PricedDevice, Processor, RAID0_OF_TWO, SAVVIO_15K, STUDY_DEVICES, X25_E_AT_4K,
    X25_E_AT_8K, arithmetic_mix, devices_for, harmonic_mix, speed_up,
};

/// The study's processor.
const PROCESSOR: Processor = Processor { ghz: 3.2, cycles_per_instruction: 2.1 };
/// The study's page.
const PAGE_BYTES: u64 = 8192;
/// The study's share of reads.
const READ_SHARE: f64 = 0.25;

fn mix(read_iops: f64, write_iops: f64) -> Mix {
    Mix { read_iops, write_iops, read_share: READ_SHARE }
}

/// The study's arithmetic with every step, and where it does not come out.
#[must_use]
pub fn study() -> String {
    let mut text = String::from(
        "The study's arithmetic (Petrov, Gottstein, Ivanov, Almeida, Buchmann, 2010), done again\n",
    );
    [amdahl, needed, disks, flash, rates, raid].iter().for_each(|part| part(&mut text));
    text
}

/// Writing to a string cannot fail.
macro_rules! say {
    ($text:expr, $($part:tt)*) => { writeln!($text, $($part)*).expect("strings take everything") };
}

fn amdahl(text: &mut String) {
    say!(text, "\nSpeed-up, 1 / ((1 - f) + f / k):");
    say!(text, "  f = 0.6, k = 10: {:.4}; the study's 2.2 x agrees", speed_up(0.6, 10.0));
    say!(
        text,
        "  f = 0.4, k = 10: {:.4}; the study's 1.5 x agrees, cut and not rounded",
        speed_up(0.4, 10.0)
    );
}

fn needed(text: &mut String) {
    say!(text, "\nBalanced system, 8 MIPS for 1 MB/s; 3.2 GHz, CPI 2.1, pages of 8 KiB, 25 % reads:");
    say!(
        text,
        "  {:.0} MIPS -> {:.1} MB/s -> {:.0} IOPS for a processor",
        PROCESSOR.mips(),
        PROCESSOR.megabytes_per_s(),
        PROCESSOR.iops(PAGE_BYTES).floor()
    );
}

fn disks(text: &mut String) {
    let disk = SAVVIO_15K;
    let rate = harmonic_mix(mix(disk.read_iops, disk.write_iops));
    let count = devices_for(PROCESSOR.iops(PAGE_BYTES), rate);
    let price = disk.price_eur.unwrap_or_default();
    say!(
        text,
        "  {}: harmonic mix {rate:.1} IOPS -> {count:.1} drives = EUR {:.0}; {:.0} whole ones EUR {:.0}",
        disk.name,
        count * price,
        count.ceil(),
        count.ceil() * price
    );
    say!(
        text,
        "    the study's 80 drives for EUR 12 000 do not: 80 at EUR {price:.0} are EUR {:.0}, and EUR 12 000 buy {:.1}",
        80.0 * price,
        12_000.0 / price
    );
}

fn flash(text: &mut String) {
    let needed = PROCESSOR.iops(PAGE_BYTES);
    let price = INTEL_X25_E.price_eur.unwrap_or_default();
    let measured = mix(X25_E_AT_8K.read_iops, X25_E_AT_8K.write_iops);
    let specified = mix(INTEL_X25_E.read_iops, INTEL_X25_E.write_iops);
    for (name, rate) in [
        ("arithmetic mix, measured with 8 KiB", arithmetic_mix(measured)),
        ("harmonic mix, measured with 8 KiB", harmonic_mix(measured)),
        ("harmonic mix, specified for 4 KiB", harmonic_mix(specified)),
    ] {
        let count = devices_for(needed, rate);
        say!(
            text,
            "  {}, {name}: {rate:.0} IOPS -> {count:.2} -> {:.0} drives, EUR {:.0}",
            INTEL_X25_E.name,
            count.ceil(),
            count.ceil() * price
        );
    }
    say!(
        text,
        "    the study's 3 drives for EUR 2 000 follow only from the arithmetic mix, which no device reaches"
    );
    let at_4k = devices_for(PROCESSOR.iops(4096), harmonic_mix(specified));
    say!(
        text,
        "    a rate of 4 KiB against a need of 8 KiB flatters: with pages of 4 KiB the need doubles, to {at_4k:.1} drives"
    );
}

fn rates(text: &mut String) {
    say!(text, "\nFor a euro, from the prices that the study names:");
    for device in STUDY_DEVICES {
        let Some((read, write)) = device.read_iops_per_eur().zip(device.write_iops_per_eur()) else {
            continue;
        };
        let per_gb =
            device.eur_per_gb().map_or("size not named".into(), |price| format!("{price:.2} EUR/GB"));
        say!(text, "  {}: {read:.1} reads/s, {write:.2} writes/s; {per_gb}", device.name);
    }
    say!(
        text,
        "    the study's 56 and 5.3 of the {} do not: they are of a price of EUR {:.0} to {:.0}, not of EUR 650",
        INTEL_X25_E.name,
        implied(INTEL_X25_E, 56.0, 5.3, 0.5, 0.05).0,
        implied(INTEL_X25_E, 56.0, 5.3, 0.5, 0.05).1
    );
    say!(
        text,
        "  {}, reads by writes: {:.1} with 4 KiB, {:.1} with 8 KiB, {:.1} as specified; the study's \"up to 10x\" is the last",
        INTEL_X25_E.name,
        X25_E_AT_4K.read_iops / X25_E_AT_4K.write_iops,
        X25_E_AT_8K.read_iops / X25_E_AT_8K.write_iops,
        INTEL_X25_E.read_iops / INTEL_X25_E.write_iops
    );
}

fn raid(text: &mut String) {
    let (one, two) = (INTEL_X25_E, RAID0_OF_TWO);
    say!(text, "\n{} against one:", two.name);
    say!(
        text,
        "  reads {:+.0} %, writes {:+.0} %; {:.2} and {:.2} of twice one; the study says \"approx. 30 % lower\" of both",
        (two.read_iops / one.read_iops - 1.0) * 100.0,
        (two.write_iops / one.write_iops - 1.0) * 100.0,
        two.read_iops / one.read_iops / 2.0,
        two.write_iops / one.write_iops / 2.0
    );
    let (low, high) = implied(two, 13.0, 1.1, 0.5, 0.05);
    let per_gb = 19.0 * two.gigabytes.unwrap_or_default();
    say!(
        text,
        "  the study's 13 and 1.1 for a euro are of a price of EUR {low:.0} to {high:.0}; its 19 EUR/GB of EUR {per_gb:.0} for 128 GB"
    );
}

/// The prices from which rates per euro come that were rounded by up to the given amounts.
fn implied(device: PricedDevice, read: f64, write: f64, read_by: f64, write_by: f64) -> (f64, f64) {
    let low = (device.read_iops / (read + read_by)).max(device.write_iops / (write + write_by));
    let high = (device.read_iops / (read - read_by)).min(device.write_iops / (write - write_by));
    (low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounded(figure: f64, digits: i32) -> f64 {
        let scale = 10f64.powi(digits);
        (figure * scale).round() / scale
    }

    #[test]
    fn what_the_study_has_right() {
        assert_eq!(rounded(speed_up(0.6, 10.0), 3), 2.174);
        assert_eq!(rounded(speed_up(0.4, 10.0), 3), 1.563);
        assert_eq!((rounded(speed_up(0.6, 10.0), 1), (speed_up(0.4, 10.0) * 10.0).floor()), (2.2, 15.0));
        assert_eq!(rounded(PROCESSOR.mips(), 0), 1524.0);
        assert_eq!(rounded(PROCESSOR.megabytes_per_s(), 1), 190.5);
        assert_eq!(PROCESSOR.iops(PAGE_BYTES).floor(), 23_251.0);
    }

    #[test]
    fn eighty_disks_are_seventy_five() {
        let count = devices_for(PROCESSOR.iops(PAGE_BYTES), harmonic_mix(mix(350.0, 300.0)));
        assert_eq!(rounded(count, 1), 74.7);
        assert_eq!(((count * 180.0 / 100.0).floor(), count.ceil() * 180.0), (134.0, 13_500.0));
        // Not even the other mix gives 80.
        let arithmetic = devices_for(PROCESSOR.iops(PAGE_BYTES), arithmetic_mix(mix(350.0, 300.0)));
        assert_eq!(rounded(arithmetic, 1), 74.4);
    }

    #[test]
    fn three_drives_need_the_arithmetic_mix() {
        let needed = PROCESSOR.iops(PAGE_BYTES);
        let measured = mix(23_000.0, 4_800.0);
        assert_eq!(arithmetic_mix(measured), 9350.0);
        assert_eq!(rounded(devices_for(needed, arithmetic_mix(measured)), 2), 2.49);
        assert_eq!(rounded(devices_for(needed, harmonic_mix(measured)), 1), 3.9);
        assert_eq!(rounded(devices_for(needed, harmonic_mix(mix(35_000.0, 3_300.0))), 1), 5.5);
    }

    #[test]
    fn rates_for_a_euro() {
        let of = |device: PricedDevice| {
            let (read, write) = (device.read_iops_per_eur()?, device.write_iops_per_eur()?);
            Some((rounded(read, 1), rounded(write, 2)))
        };
        assert_eq!(STUDY_DEVICES.map(of), [Some((53.8, 5.08)), Some((21.7, 13.33)), Some((1.9, 1.67)), None]);
        assert_eq!(INTEL_X25_E.eur_per_gb().map(|price| rounded(price, 0)), Some(10.0));
        // The study's 56 and 5.3 agree with one another, and with no price of 650.
        let (low, high) = implied(INTEL_X25_E, 56.0, 5.3, 0.5, 0.05);
        assert!(low < high && high < 650.0, "{low} to {high}");
        let (low, high) = implied(RAID0_OF_TWO, 13.0, 1.1, 0.5, 0.05);
        assert!(low < high && high < 18.5 * 128.0, "{low} to {high}");
    }

    #[test]
    fn the_text_has_every_step() {
        let text = study();
        for part in [
            "2.1739",
            "1.5625",
            "1524 MIPS -> 190.5 MB/s -> 23251 IOPS",
            "74.7 drives",
            "2.49 -> 3 drives",
            "3.89 -> 4 drives",
            "5.45 -> 6 drives",
            "EUR 13453",
            "80 at EUR 180 are EUR 14400",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
