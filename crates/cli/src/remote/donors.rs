//! `aquifer donors`: who lends how much.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use aquifer_remote::borrower::{BorrowerOptions, borrowings, look, members};
use aquifer_remote::control::{Borrowing, Member, Offer, Welcome};
use clap::Args;
use serde::Serialize;

use crate::error::{Error, printable};
use crate::remote::security;

/// What the help shows at its end.
pub const EXAMPLES: &str = "\
Examples:
  aquifer donors alpha:7447 --cluster /etc/aquifer            it, and all that it knows of
  aquifer donors alpha:7447 beta:7447 --cluster /etc/aquifer
  aquifer donors 127.0.0.1:7447 --donors-only                 no others
  aquifer donors alpha:7447 --cluster /etc/aquifer --json | jq .free_slabs
  aquifer donors alpha:7447 --cluster /etc/aquifer --borrowers
                                                              who has borrowed what

A donor that gossips knows the others of its cluster. Of one that is gone, it is shown what it
told last.

Exit status: 0 all that are not gone answered, 1 some did not, 2 nobody could be asked.";

/// Arguments of `aquifer donors`.
#[derive(Args, Debug)]
pub struct DonorsArguments {
    /// Where they are
    #[arg(required = true, value_name = "HOST:PORT")]
    pub donors: Vec<String>,
    /// This host's folder of the cluster
    #[arg(long, value_name = "FOLDER")]
    pub cluster: Option<PathBuf>,
    /// Also who has borrowed from each, those with the most slabs first
    #[arg(long)]
    pub borrowers: bool,
    /// Only those that are named, and not those that they know of
    #[arg(long)]
    pub donors_only: bool,
    /// One line of JSON for each in place of the table
    #[arg(short, long)]
    pub json: bool,
}

/// Asks donors.
///
/// # Errors
/// This host has no identity.
pub fn donors(arguments: &DonorsArguments) -> Result<ExitCode, Error> {
    let options =
        BorrowerOptions { security: security(arguments.cluster.as_deref())?, ..BorrowerOptions::default() };
    let (shown, with_borrowers) = (BTreeSet::new(), arguments.borrowers);
    let mut list =
        List { out: io::stdout().lock(), shown, is_whole: true, with_borrowers, is_json: arguments.json };
    if !arguments.json {
        writeln!(
            list.out,
            "{:<28} {:>8} {:>8} {:>9}  {:<8} {:<5} domain",
            "donor", "slabs", "free", "slab", "provider", "state"
        )?;
    }
    let mut known = Vec::new();
    for donor in &arguments.donors {
        if list.ask(donor, &options)?
            && !arguments.donors_only
            && let Ok(others) = members(donor, &options)
        {
            known.extend_from_slice(others.as_slice());
        }
    }
    // What is not encrypted stays on this machine, whatever a donor says.
    known.retain(|member| arguments.cluster.is_some() || member.address.ip().is_loopback());
    // A donor that one member reports as alive counts as alive, whatever the others say.
    known.sort_by_key(|member| (member.address, !member.is_alive));
    known.dedup_by_key(|member| member.address);
    for member in &known {
        match member.is_alive {
            _ if list.shown.contains(&member.address) => {}
            true => drop(list.ask(&member.address.to_string(), &options)?),
            false => list.gone(member)?,
        }
    }
    Ok(if list.is_whole { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// What is printed.
struct List<W> {
    out: W,
    /// Donors that answered, as they call themselves.
    shown: BTreeSet<SocketAddr>,
    /// Whether all that were asked answered.
    is_whole: bool,
    with_borrowers: bool,
    is_json: bool,
}

/// A donor, as programs read it. What is not known is missing.
#[derive(Serialize, Default)]
struct Line<'a> {
    donor: &'a str,
    /// `alive`, `gone`, or `silent` if it did not answer.
    state: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slabs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_slabs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    slab_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    domain: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    borrowers: Option<Vec<Lent>>,
}

/// What a borrower has.
#[derive(Serialize)]
struct Lent {
    host: String,
    name: String,
    slabs: u64,
}

impl<W: Write> List<W> {
    /// Asks a donor and prints what it says; `true` if it answered.
    fn ask(&mut self, donor: &str, options: &BorrowerOptions) -> io::Result<bool> {
        match look(donor, options) {
            Ok((welcome, offer)) => {
                self.shown.insert(welcome.address);
                if self.is_json {
                    self.alive_json(donor, &welcome, &offer, options)?;
                    return Ok(true);
                }
                self.alive(donor, &welcome, &offer)?;
                if self.with_borrowers {
                    self.tell_borrowers(donor, options)?;
                }
                Ok(true)
            }
            Err(error) => {
                self.is_whole = false;
                if self.is_json {
                    let error = Some(error.to_string());
                    self.line(&Line { donor, state: "silent", error, ..Line::default() })?;
                } else {
                    writeln!(self.out, "{:<28} {}", printable(donor), printable(&error.to_string()))?;
                }
                Ok(false)
            }
        }
    }

    fn line(&mut self, line: &Line<'_>) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        writeln!(self.out)
    }

    fn alive_json(
        &mut self,
        donor: &str,
        welcome: &Welcome,
        offer: &Offer,
        options: &BorrowerOptions,
    ) -> io::Result<()> {
        let (mut error, mut borrowers) = (None, None);
        if self.with_borrowers {
            match borrowings(donor, options) {
                Ok(all) => {
                    let lent = |one: &Borrowing| Lent {
                        host: one.host.clone(),
                        name: one.name.clone(),
                        slabs: one.slabs,
                    };
                    borrowers = Some(all.iter().map(lent).collect());
                }
                Err(why) => {
                    self.is_whole = false;
                    error = Some(why.to_string());
                }
            }
        }
        self.line(&Line {
            donor,
            state: "alive",
            error,
            slabs: Some(offer.slabs),
            free_slabs: Some(offer.free_slabs),
            slab_bytes: Some(welcome.slab_bytes),
            provider: Some(&welcome.provider),
            domain: Some(&welcome.domain),
            borrowers,
        })
    }

    fn alive(&mut self, donor: &str, welcome: &Welcome, offer: &Offer) -> io::Result<()> {
        writeln!(
            self.out,
            "{:<28} {:>8} {:>8} {:>5} MiB  {:<8} alive {}",
            printable(donor),
            offer.slabs,
            offer.free_slabs,
            welcome.slab_bytes >> 20,
            printable(&welcome.provider),
            printable(&welcome.domain)
        )
    }

    fn tell_borrowers(&mut self, donor: &str, options: &BorrowerOptions) -> io::Result<()> {
        match borrowings(donor, options) {
            Ok(all) => all.iter().try_for_each(|Borrowing { host, name, slabs }| {
                let who = [host, name].map(|text| printable(text)).join(" ");
                writeln!(self.out, "{:<28} {slabs:>8} lent to {}", "", who.trim())
            }),
            Err(error) => {
                self.is_whole = false;
                writeln!(self.out, "{:<28} {}", "", printable(&error.to_string()))
            }
        }
    }

    fn gone(&mut self, member: &Member) -> io::Result<()> {
        if self.is_json {
            let (donor, offer) = (member.address.to_string(), &member.offer);
            return self.line(&Line {
                donor: &donor,
                state: "gone",
                slabs: Some(offer.slabs),
                free_slabs: Some(offer.free_slabs),
                domain: Some(&member.domain),
                ..Line::default()
            });
        }
        writeln!(
            self.out,
            "{:<28} {:>8} {:>8} {:>9}  {:<8} gone  {}",
            member.address.to_string(),
            member.offer.slabs,
            member.offer.free_slabs,
            "-",
            "-",
            printable(&member.domain)
        )
    }
}
