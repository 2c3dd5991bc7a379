//! What a heap borrows from other machines, as its socket tells it.

pub mod rows;

use serde::{Deserialize, Serialize};

use crate::latency::Latency;
use crate::reply::Numbers;

/// What a heap borrows from donors, at the time of one answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Borrowed {
    /// Parts of the device that are used.
    pub parts: u64,
    /// Of these, parts that have all the slabs that they should.
    pub placed: u64,
    /// What pages went where, by name.
    pub pages: Numbers,
    /// The donors, in the order in which the program was told of them.
    pub donors: Vec<Donor>,
}

/// A donor.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Donor {
    /// Host and port.
    pub address: String,
    /// What carries transfers, if it is connected.
    pub provider: Option<String>,
    /// Which donors fail together.
    pub domain: String,
    /// Slabs borrowed there.
    pub slabs: u64,
    /// Why it is not connected.
    pub trouble: Option<String>,
    /// Transfers from it.
    #[serde(default)]
    pub reads: u64,
    /// Their bytes.
    #[serde(default)]
    pub read_bytes: u64,
    /// Transfers to it.
    #[serde(default)]
    pub writes: u64,
    /// Their bytes.
    #[serde(default)]
    pub written_bytes: u64,
    /// How long transfers from it took.
    pub read_latency: Option<Latency>,
    /// How long transfers to it took.
    pub write_latency: Option<Latency>,
}

impl Borrowed {
    /// All numbers that are not of one donor, by name.
    pub fn numbers(&self) -> Numbers {
        let mut numbers = self.pages.clone();
        numbers.extend([("parts".to_owned(), self.parts), ("placed".to_owned(), self.placed)]);
        numbers
    }

    /// The donor with this address.
    pub fn donor(&self, address: &str) -> Option<&Donor> {
        self.donors.iter().find(|donor| donor.address == address)
    }
}

impl Donor {
    /// Whether it can be borrowed from.
    pub fn is_connected(&self) -> bool {
        self.provider.is_some()
    }

    /// Why it cannot, if it cannot.
    pub fn complaint(&self) -> Option<&str> {
        let reason = self.trouble.as_deref().unwrap_or("not connected");
        (!self.is_connected()).then_some(reason)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Two donors, of which one is gone, `steps` seconds after the heap was opened.
    pub fn borrowed(steps: u64) -> Borrowed {
        let latency = format!(r#"{{"upper_ns":[16384,32768,65536],"count":[0,{},{steps}]}}"#, 99 * steps);
        let latency: Latency = serde_json::from_str(&latency).unwrap();
        let pages = [
            ("remote_reads", 200),
            ("decoded_reads", 0),
            ("buffer_reads", 10),
            ("flash_reads", 30),
            ("remote_writes", 50),
            ("wrong_pages", 0),
            ("lost_slabs", 0),
            ("lost_pages", 0),
        ];
        let alpha = Donor {
            address: "alpha:7447".into(),
            provider: Some("tcp".into()),
            domain: "rack 1".into(),
            slabs: 4,
            trouble: None,
            reads: 100 * steps,
            read_bytes: (100 * steps) << 12,
            writes: 40 * steps,
            written_bytes: (40 * steps) << 17,
            read_latency: Some(latency.clone()),
            write_latency: Some(latency),
        };
        let beta = Donor {
            address: "beta:7447".into(),
            provider: None,
            slabs: 0,
            trouble: Some("the donor did not answer within 1000 ms".into()),
            ..alpha.clone()
        };
        Borrowed {
            parts: 5,
            placed: 4,
            pages: pages.map(|(name, each)| (name.to_owned(), each * steps)).into(),
            donors: vec![alpha, beta],
        }
    }

    #[test]
    fn what_the_library_sends_is_read() {
        let seen = aquifer_remote::borrower::DonorSeen {
            address: "alpha:7447".into(),
            provider: Some("tcp".into()),
            domain: String::new(),
            slabs: 3,
            trouble: None,
            traffic: aquifer_remote::transport::TrafficSeen::default(),
        };
        let pages = aquifer_remote::far::FarCounters::default();
        let sent = serde_json::json!({ "donors": [seen], "parts": 2, "placed": 1, "pages": pages });
        let read: Borrowed = serde_json::from_value(sent.clone()).unwrap();
        assert_eq!((read.donors[0].slabs, read.parts, read.placed), (3, 2, 1));
        assert_eq!(read.donors[0].read_latency.as_ref().map(Latency::total), Some(0));
        assert_eq!(read.numbers().len(), 10);
        assert_eq!(read.donor("alpha:7447").and_then(Donor::complaint), None);
        let names = |value: &serde_json::Value| -> Vec<String> {
            value["donors"][0].as_object().expect("an object").keys().cloned().collect()
        };
        let again = serde_json::to_value(&read).unwrap();
        assert_eq!(names(&again), names(&sent), "nothing of a donor is left out");
    }

    #[test]
    fn who_is_not_connected_says_why() {
        assert_eq!(borrowed(1).donors[1].complaint(), Some("the donor did not answer within 1000 ms"));
        let unknown = Donor { trouble: None, ..borrowed(1).donors[1].clone() };
        assert_eq!(unknown.complaint(), Some("not connected"));
    }
}
