//! Loss of power in the middle of things.

/// How far an operation came before the power was gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tear {
    /// Nothing of it happened, but a page that was to be programmed must not be programmed now.
    Nothing,
    /// This many thousandths of the bytes of a page and its out-of-band bytes, in this order, or of the pages of a block.
    Part(u16),
    /// All of it happened; only nobody heard.
    Everything,
}

/// When the power goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PowerCut {
    /// Programs and erases that are still done.
    pub after_operations: u64,
    /// What becomes of the next one.
    pub tear: Tear,
}

/// Power, and when it goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Power {
    cut: Option<PowerCut>,
    is_off: bool,
}

impl Power {
    pub(super) fn plan(&mut self, cut: PowerCut) {
        self.cut = Some(cut);
    }

    pub(super) fn restore(&mut self) {
        *self = Power::default();
    }

    pub(super) fn is_off(&self) -> bool {
        self.is_off
    }

    /// Counts an operation; tells how far it comes if it is the last.
    pub(super) fn spend(&mut self) -> Option<Tear> {
        let cut = self.cut.as_mut()?;
        if cut.after_operations > 0 {
            cut.after_operations -= 1;
            return None;
        }
        self.is_off = true;
        Some(cut.tear)
    }
}

impl Tear {
    /// How many of `whole` were reached.
    pub(super) fn of(self, whole: usize) -> usize {
        match self {
            Tear::Nothing => 0,
            Tear::Part(thousandths) => whole * usize::from(thousandths.min(1000)) / 1000,
            Tear::Everything => whole,
        }
    }
}
