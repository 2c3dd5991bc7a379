//! The studies of the heap in one go, with the tables and plots made from them: `make bench`.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use clap::Args;

use crate::error::{Error, Result};
use crate::omissions::Omissions;
use crate::study::{self, STUDIES};

/// Study, options of a quick run, options of a full one. The points of `micro` are those with promises.
const PLAN: [(&str, &str, &str); 5] = [
    (
        "micro",
        "--data 1G --ram 64M --seconds 2 --warmup 5 --runs 3 --point uniform:100:32,uniform:0:32,scattered-hot:100:1,\
         scattered-hot:100:8,scattered-hot:50:8,scattered-hot:0:8,zipf:100:8,zipf:50:8,zipf:0:8",
        "--dist uniform,zipf,scattered-hot --reads 100,75,50,25,0 --threads 1,8,32 --seconds 5 --payload random,python",
    ),
    ("overhead", "", ""),
    ("references", "--data 512M --ram 32M --seconds 1 --runs 3", "--seconds 5"),
    ("write-amp", "--flash 512M --ram 16M", "--flash 4G --ram 128M"),
    ("budget", "--seconds 60 --data 1G --ram 64M", ""),
];

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

/// Runs every study of the plan one after the other. A study that cannot run does not stop the others.
///
/// # Errors
/// [`Error::WrongData`] at once; [`Error::Io`] if the results cannot be written; in the end the first failure of a study.
pub fn run(options: &AllOptions) -> Result<()> {
    fs::create_dir_all(&options.out).map_err(Error::io("creating", &options.out))?;
    let results = options.out.join("results.jsonl");
    // The tables are about this run only.
    fs::write(&results, "").map_err(Error::io("writing", &results))?;
    eprintln!("{} to go", if options.full { "hours" } else { "about an hour" });
    let mut omissions = Omissions::default();
    for (name, quick, full) in PLAN {
        let words = if options.full { full } else { quick }.split_whitespace().map(OsString::from);
        let places =
            [OsString::from("--dir"), options.dir.clone().into(), "--out".into(), results.clone().into()];
        if let Err(error) = study::run_with(name, &words.chain(places).collect::<Vec<_>>()) {
            eprintln!("{name} did not finish: {}", omissions.reason(error)?);
        }
    }
    let records = study::read(&results)?;
    let page = options.out.join("results.md");
    fs::write(&page, study::render_all(STUDIES, &records)).map_err(Error::io("writing", &page))?;
    study::plot(STUDIES, &records, &options.out.join("plots"))?;
    eprintln!("results in {}", page.display());
    omissions.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn studies_take_the_options_of_the_plan() {
        for (name, quick, full) in PLAN {
            for line in [quick, full] {
                study::accepts(name, line).expect("options of the study");
            }
        }
    }
}
