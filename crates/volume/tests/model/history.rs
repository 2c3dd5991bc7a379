//! What a volume may be after a crash.

use std::sync::Arc;

use aquifer_volume::medium::NandMedium;
use aquifer_volume::{Result, Volume};

use crate::model::{Dice, Model, Object, Step, read_all};
use crate::{check, open};

/// The states that a crash may come back to: the last that was synced, and all after it.
pub struct History {
    states: Vec<Model>,
    synced: usize,
}

impl History {
    pub fn new(model: Model) -> Self {
        History { states: vec![model], synced: 0 }
    }

    /// Runs random steps until one fails, or they are done.
    pub fn run(&mut self, volume: &Volume, dice: &mut Dice, steps: u32) -> Result<()> {
        for _ in 0..steps {
            let model = self.states.last().expect("one at least");
            let step = Step::random(dice, model);
            let expected = step.expected(model);
            if expected.is_none() {
                let mut next = model.clone();
                next.apply(&step);
                // It may come to flash in part: as a later state, which is no more and no less than the step.
                self.states.push(next);
            }
            match step.apply(volume) {
                Ok(Some(done)) => {
                    self.states.pop();
                    let mut next = self.states.last().expect("one at least").clone();
                    next.apply(&done);
                    self.states.push(next);
                }
                Ok(None) if matches!(step, Step::Sync) => self.synced = self.states.len() - 1,
                Ok(None) => {}
                Err(error) if expected.as_ref() == Some(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Says that a volume is in one of the states, and which.
    pub fn find(&self, volume: &Volume, what: &str) -> Model {
        check(volume);
        let objects = read_all(volume);
        let allowed = &self.states[self.synced..];
        let found = allowed.iter().rposition(|state| state.objects == objects);
        assert!(
            found.is_some(),
            "{what}: the volume is in none of the {} states it may be in",
            allowed.len()
        );
        Model { objects }
    }
}

impl History {
    fn allowed(&self, may_be_older: bool) -> &[Model] {
        &self.states[if may_be_older { 0 } else { self.synced }..]
    }

    /// Whether a path stood for this in one of the states; `may_be_older` than the last that was synced.
    pub fn has(&self, path: &str, object: &Object, may_be_older: bool) -> bool {
        self.allowed(may_be_older).iter().any(|state| state.objects.get(path) == Some(object))
    }

    /// Whether this is one of the states.
    pub fn has_state(&self, model: &Model, may_be_older: bool) -> bool {
        self.allowed(may_be_older).iter().any(|state| state.objects == model.objects)
    }
}

/// Opens the volume after a crash, and says what it is now.
pub fn verify(medium: &Arc<NandMedium>, history: &History, what: &str) -> Model {
    history.find(&open(Box::new(Arc::clone(medium))), what)
}
