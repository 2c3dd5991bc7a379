//! Runs a scenario with a contender from the beginning to the end.

use crate::cluster::Cluster;
use crate::contender::Contender;
use crate::error::SimError;
use crate::event::Event;
use crate::measures::Measures;
use crate::outcome::Outcome;
use crate::scenario::Scenario;

/// Runs it. `observe` hears now and then how much of the virtual time is over, from 0 to 1.
///
/// # Errors
/// The scenario makes no sense; or donors and borrowers disagree about what is lent, which would be a defect.
pub fn run(
    scenario: &Scenario,
    contender: Contender,
    observe: &(dyn Fn(f64) + Sync),
) -> Result<Outcome, SimError> {
    scenario.check().map_err(SimError::Scenario)?;
    let mut cluster = Cluster::new(scenario, contender);
    let mut measures = Measures::new(scenario.machines);
    let broken = |cluster: &Cluster<'_>, what| SimError::Broken { at_s: cluster.now.as_secs_f64(), what };
    while let Some((at, event)) = cluster.queue.take_next() {
        if at > scenario.ends() {
            break;
        }
        cluster.now = at;
        if event == Event::Sample {
            cluster.check().map_err(|what| broken(&cluster, what))?;
            measures.take(&mut cluster);
            observe(at.as_secs_f64() / scenario.ends().as_secs_f64());
            cluster.queue.add(at + scenario.sample_every, Event::Sample);
        } else {
            cluster.happen(event).map_err(|what| broken(&cluster, what))?;
        }
    }
    Ok(measures.outcome(&cluster))
}

#[cfg(test)]
mod tests;
