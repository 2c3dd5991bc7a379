//! What a donor tells of itself, as the words that gossip carries.

use aquifer_remote::control::{DOMAIN_BYTES_MAX, Member, Offer};

const ADDRESS: &str = "address";
const DOMAIN: &str = "domain";
const OFFER: &str = "offer";
const VERSION: &str = "version";

/// All of it.
#[must_use]
pub fn words(member: &Member) -> Vec<(String, String)> {
    let words = [
        (ADDRESS, member.address.to_string()),
        (DOMAIN, member.domain.clone()),
        (OFFER, offer(&member.offer)),
        (VERSION, member.version.to_string()),
    ];
    words.map(|(name, word)| (name.to_string(), word)).into()
}

/// What changes.
pub(crate) fn offer_words(of: &Offer) -> (&'static str, String) {
    (OFFER, offer(of))
}

fn offer(offer: &Offer) -> String {
    format!("{}/{}", offer.free_slabs, offer.slabs)
}

/// What somebody told, if it is all there and makes sense. Whether it is alive is not for it to tell.
#[must_use]
pub fn member<'a>(word: impl Fn(&str) -> Option<&'a str>) -> Option<Member> {
    let (free, slabs) = word(OFFER)?.split_once('/')?;
    let offer = Offer { free_slabs: free.parse().ok()?, slabs: slabs.parse().ok()? };
    let domain = word(DOMAIN)?;
    let member = Member {
        address: word(ADDRESS)?.parse().ok()?,
        domain: domain.to_string(),
        offer,
        is_alive: false,
        version: word(VERSION)?.parse().ok()?,
    };
    let is_sound = domain.len() <= DOMAIN_BYTES_MAX && offer.free_slabs <= offer.slabs;
    is_sound.then_some(member)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &[(String, String)]) -> Option<Member> {
        member(|name| words.iter().find(|(other, _)| other == name).map(|(_, word)| word.as_str()))
    }

    #[test]
    fn what_is_told_is_read() {
        let told = Member {
            address: "[fe80::1]:7447".parse().expect("an address"),
            domain: "rack 7".into(),
            offer: Offer { free_slabs: 3, slabs: u64::MAX },
            is_alive: false,
            version: 2,
        };
        let words = words(&told);
        assert_eq!(read(&words), Some(told));
        for left_out in 0..words.len() {
            let mut some = words.clone();
            some.remove(left_out);
            assert_eq!(read(&some), None, "{left_out}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_not() {
        let words = |address: &str, domain: &str, offer: &str, version: &str| {
            [(ADDRESS, address), (DOMAIN, domain), (OFFER, offer), (VERSION, version)]
                .map(|(name, word)| (name.to_string(), word.to_string()))
        };
        let long = "x".repeat(DOMAIN_BYTES_MAX + 1);
        assert!(read(&words("127.0.0.1:1", "", "1/2", "2")).is_some());
        for wrong in [
            words("localhost:1", "", "1/2", "2"),
            words("127.0.0.1:1", &long, "1/2", "2"),
            words("127.0.0.1:1", "", "3/2", "2"),
            words("127.0.0.1:1", "", "12", "2"),
            words("127.0.0.1:1", "", "-1/2", "2"),
            words("127.0.0.1:1", "", "1/2", "two"),
        ] {
            assert_eq!(read(&wrong), None, "{wrong:?}");
        }
    }
}
