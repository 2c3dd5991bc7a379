//! Examples of what can be done with volumes, by subcommand.
#![allow(missing_docs, reason = "each is named for its subcommand")]

pub const CREATE: &str = "\
Examples:
  aquifer volume create data.vol --size 10G
  aquifer volume create /dev/nvme0n1p3 --erase /dev/nvme0n1p3   all of a device that holds data";

pub const LS: &str = "\
Examples:
  aquifer volume ls -lR data.vol:/results
  aquifer volume ls -R data.vol:/ --json | jq -r .path";

pub const CAT: &str = "\
Examples:
  aquifer volume cat data.vol:/results/a.txt | head";

pub const CP: &str = "\
Examples:
  aquifer volume cp -rp results data.vol:/       a folder of the host into it
  aquifer volume cp -rp data.vol:/results copy   and out of it";

pub const RM: &str = "\
Examples:
  aquifer volume rm -r data.vol:/old";

pub const MV: &str = "\
Examples:
  aquifer volume mv data.vol:/results data.vol:/old";

pub const MKDIR: &str = "\
Examples:
  aquifer volume mkdir -p data.vol:/a/b/c";

pub const LN: &str = "\
Examples:
  aquifer volume ln data.vol:/results/a.txt data.vol:/a
  aquifer volume ln -s /results/a.txt data.vol:/link";

pub const CHMOD: &str = "\
Examples:
  aquifer volume chmod go-w data.vol:/results
  aquifer volume chmod 640 data.vol:/results/a.txt";

pub const CHOWN: &str = "\
Examples:
  aquifer volume chown 1000:1000 data.vol:/results";

pub const STAT: &str = "\
Examples:
  aquifer volume stat data.vol:/results/a.txt
  aquifer volume stat data.vol:/results/a.txt --json | jq .stored_bytes";

pub const DF: &str = "\
Examples:
  aquifer volume df data.vol
  aquifer volume df data.vol --json | jq .free_bytes";

pub const CHECK: &str = "\
Examples:
  aquifer volume check data.vol && echo fine
  aquifer volume check data.vol --json | jq .problems";

pub const SCRUB: &str = "\
Examples:
  aquifer volume scrub data.vol && echo fine
  aquifer volume scrub data.vol --json | jq .damaged";

pub const SALVAGE: &str = "\
Examples:
  aquifer volume salvage data.vol saved";
