//! What carries bytes between donors and borrowers.

use aquifer_remote::transport::{TransportError, fabric, memory};

use super::part::Part;

/// The parts.
pub fn parts() -> Vec<Part> {
    let found = fabric::version().and_then(|version| Ok((version, fabric::providers()?)));
    vec![network(found), own_machine()]
}

/// Between machines: `found` are version and providers of libfabric.
fn network(found: Result<((u32, u32), Vec<String>), TransportError>) -> Part {
    let (name, serves) = ("network", "run --donors, block --donors, donate");
    match found {
        Ok(((major, minor), providers)) if !providers.is_empty() => {
            let state = format!("libfabric {major}.{minor}, --provider");
            Part::ready(name, serves, state).with_choices(providers)
        }
        Ok(((major, minor), _)) => {
            let state = format!("libfabric {major}.{minor} has no provider that works here");
            Part::missing(name, serves, state, "unset FI_PROVIDER, or name tcp in it")
        }
        Err(TransportError::NotBuilt) => Part::missing(
            name,
            serves,
            "this build has no network transport",
            "`apt-get install libfabric-dev`, then build again (`make lib`, or `cargo build`)",
        ),
        Err(TransportError::NoLibrary) => {
            Part::missing(name, serves, "libfabric is not installed", "`apt-get install libfabric1`")
        }
        Err(error) => {
            let remedy = "`FI_LOG_LEVEL=info aquifer version` shows what libfabric tries";
            Part::missing(name, serves, error.to_string(), remedy)
        }
    }
}

/// Between programs of this machine.
fn own_machine() -> Part {
    let state = format!("part of every build: --provider {}", memory::PROVIDER);
    Part::ready("own machine", "donate and borrow on one machine", state)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remedy(part: Part) -> String {
        assert!(!part.is_ready);
        part.remedy.expect("it is missing")
    }

    #[test]
    fn providers_are_to_choose_from() {
        let part = network(Ok(((1, 17), vec!["sockets".into(), "tcp".into()])));
        assert!(part.is_ready);
        assert_eq!(part.sentence(), "libfabric 1.17, --provider: sockets, tcp");
        assert!(remedy(network(Ok(((1, 17), Vec::new())))).contains("FI_PROVIDER"));
    }

    #[test]
    fn the_build_and_the_machine_lack_different_packages() {
        let not_built = remedy(network(Err(TransportError::NotBuilt)));
        assert!(not_built.contains("apt-get install libfabric-dev") && not_built.contains("build again"));
        assert_eq!(remedy(network(Err(TransportError::NoLibrary))), "`apt-get install libfabric1`");
        let failed = TransportError::Failed { doing: "looking", reason: "nothing works".into() };
        assert!(network(Err(failed)).state.contains("nothing works"));
    }

    /// What the command says is what a donor finds.
    #[test]
    fn a_build_without_libfabric_says_so() {
        let part = &parts()[0];
        assert_eq!(part.state.contains("this build has no"), !fabric::IS_BUILT);
    }
}
