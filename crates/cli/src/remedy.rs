//! Options of this command that mend what the library refuses: its sentences say what to do, these words how it is said here.

use aquifer::Error;
use aquifer::device::OpenError;
use aquifer_base::limits::RAM_BYTES_MIN;
use aquifer_sys::Errno;

const MIB: u64 = 1 << 20;

/// The option, as something to type; `None` if there is none.
pub fn option(error: &Error) -> Option<String> {
    Some(match error {
        Error::BudgetSmall { minimum, .. } => format!("--ram {}M", minimum.div_ceil(MIB)),
        Error::BudgetLarge { .. } => "--ram auto".into(),
        // Somebody may want some of it meanwhile.
        Error::Flash(OpenError::NoSpace { available, .. }) if *available >= 4 * MIB => {
            format!("--flash-size {}M", available / 4 * 3 / MIB)
        }
        Error::UffdForbidden(_) => "--faults signal".into(),
        _ => return None,
    })
}

/// Continues the sentence of `error` with what to do about it.
pub fn behind(error: &Error) -> String {
    match error {
        Error::AddressSpace { left } if *left >= RAM_BYTES_MIN => format!(", or `--ram {}M`", left / MIB),
        Error::FlashSmall { .. } => {
            "; all of a program's memory has a place there: leave --flash-size out".into()
        }
        Error::Kernel { errno: Errno::ENOMEM, .. } => {
            "; raise the limit on memory, as `ulimit -d unlimited` or `ulimit -v unlimited` does".into()
        }
        Error::Kernel { .. } => "; mount /proc, or leave --faults fence out".into(),
        error => option(error).map_or_else(String::new, |option| format!(": `{option}`")),
    }
}

/// Which part of `aquifer doctor` the error is about.
pub fn part(error: &Error) -> Option<&'static str> {
    Some(match error {
        Error::BudgetSmall { .. } | Error::BudgetLarge { .. } => "RAM",
        Error::FlashSmall { .. } | Error::Flash(_) => "flash",
        Error::Kernel { errno: Errno::ENOMEM, .. } | Error::AddressSpace { .. } => "address space",
        Error::UffdForbidden(_) | Error::Kernel { .. } => "userfaultfd",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_has_a_value_that_is_enough() {
        let small = Error::BudgetSmall { given: 1, minimum: 8 * MIB + 1, flash: 1 << 30 };
        assert_eq!(behind(&small), ": `--ram 9M`");
        assert!(behind(&Error::FlashSmall { given: 1, minimum: MIB }).contains("leave --flash-size out"));
        let full = |available| {
            Error::Flash(OpenError::NoSpace { path: "/there".into(), wanted: 1 << 30, available })
        };
        assert_eq!(behind(&full(64 * MIB)), ": `--flash-size 48M`");
        assert_eq!(behind(&full(MIB)), "");
        assert_eq!(part(&full(MIB)), Some("flash"));
        assert_eq!(behind(&Error::AddressSpace { left: 300 * MIB }), ", or `--ram 300M`");
    }
}
