//! Everything in one go, with the tables and plots made from it: `make bench`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Result};
use crate::omissions::Omissions;
use crate::study;
use crate::table;

/// The points that the project makes promises about.
const PROMISED_POINTS: &str = "uniform:100:32,uniform:0:32,scattered-hot:100:1,scattered-hot:100:8,\
                               scattered-hot:50:8,scattered-hot:0:8,zipf:100:8,zipf:50:8,zipf:0:8";

/// Options of `all`.
#[derive(Clone, Debug, Args)]
pub struct AllOptions {
    /// A quarter of the data, short runs, only the points with promises (the default)
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// 4 GiB, medians of 5, every mix, distribution and number of threads; takes hours
    #[arg(long)]
    pub full: bool,
    /// Directory for results, tables and plots
    #[arg(long, default_value = "target/bench")]
    pub out: PathBuf,
    /// Directory for the files of the peers, on the disk to be measured
    #[arg(long, default_value = "/var/tmp")]
    pub dir: PathBuf,
}

/// Runs every benchmark one after the other. A benchmark that cannot run does not stop the others.
///
/// # Errors
/// [`Error::WrongData`] at once; [`Error::Io`] if the results cannot be written; in the end the first failure of a benchmark.
pub fn run(options: &AllOptions) -> Result<()> {
    fs::create_dir_all(&options.out).map_err(Error::io("creating", &options.out))?;
    let results = options.out.join("results.jsonl");
    // The tables are about this run only.
    fs::write(&results, "").map_err(Error::io("writing", &results))?;
    let plan = Plan::new(options, &results);
    eprintln!("{} to go", if options.full { "hours" } else { "about an hour" });
    let steps: [(&str, &dyn Fn() -> Result<()>); 5] = [
        ("micro", &|| study::run_with("micro", &plan.micro)),
        ("overhead", &|| study::run_with("overhead", &plan.overhead)),
        ("references", &|| study::run_with("references", &plan.references)),
        ("write-amp", &|| study::run_with("write-amp", &plan.write_amp)),
        ("budget", &|| study::run_with("budget", &plan.budget)),
    ];
    let mut omissions = Omissions::default();
    for (name, step) in steps {
        if let Err(error) = step() {
            eprintln!("{name} did not finish: {}", omissions.reason(error)?);
        }
    }
    let files = std::slice::from_ref(&results);
    let page = options.out.join("results.md");
    fs::write(&page, table::pages(files)?).map_err(Error::io("writing", &page))?;
    study::plot(study::STUDIES, &table::of_studies(files)?, &options.out.join("plots"))?;
    eprintln!("results in {}", page.display());
    omissions.end()
}

/// The options of each benchmark.
struct Plan {
    micro: Vec<OsString>,
    overhead: Vec<OsString>,
    references: Vec<OsString>,
    write_amp: Vec<OsString>,
    budget: Vec<OsString>,
}

impl Plan {
    fn new(options: &AllOptions, results: &std::path::Path) -> Self {
        let (micro, references, write_amp, budget) = if options.full {
            (
                "--dist uniform,zipf,scattered-hot --reads 100,75,50,25,0 --threads 1,8,32 --seconds 5",
                "--seconds 5",
                "--flash 4G --ram 128M",
                "",
            )
        } else {
            (
                "--data 1G --ram 64M --seconds 2 --warmup 5 --runs 3 --point POINTS",
                "--data 512M --ram 32M --seconds 1 --runs 3",
                "--flash 512M --ram 16M",
                "--seconds 60 --data 1G --ram 64M",
            )
        };
        let places = ["--dir".into(), options.dir.clone(), "--out".into(), results.to_owned()];
        let words = |line: &str| {
            let line = line.split_whitespace().map(OsString::from);
            line.chain(places.iter().map(|place| place.clone().into_os_string())).collect()
        };
        Self {
            micro: words(&micro.replace("POINTS", PROMISED_POINTS)),
            overhead: words(""),
            references: words(references),
            write_amp: words(write_amp),
            budget: words(budget),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_plans_write_to_the_results() {
        for full in [false, true] {
            let options =
                AllOptions { quick: !full, full, out: PathBuf::from("out"), dir: PathBuf::from("/var/tmp") };
            let plan = Plan::new(&options, std::path::Path::new("out/results.jsonl"));
            for words in [plan.micro, plan.overhead, plan.references, plan.write_amp, plan.budget] {
                assert_eq!(words.last(), Some(&OsString::from("out/results.jsonl")));
            }
        }
    }
}
