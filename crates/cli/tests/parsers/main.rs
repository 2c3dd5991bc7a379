//! Parsers against random and damaged input.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod reply;

#[test]
fn replies() {
    let stats = serde_json::to_string(&aquifer::Stats::default()).expect("numbers can be written");
    let samples = [
        format!("{{\"pid\":4711,\"version\":\"0.1.0\",\"stats\":{stats}}}"),
        "{\"pid\":1,\"version\":\"\\u001b[2J\",\"stats\":{\"new\":18446744073709551615}}".into(),
        "{\"pid\":1,\"check\":\"ok\"}".into(),
        "{\"pid\":1,\"check\":\"failed\",\"problem\":\"slot 3 has two owners\"}".into(),
        "{\"error\":\"the heap is closing\"}".into(),
        "{\"error\":{\"deep\":[[[[[[]]]]]]}}".into(),
    ];
    let samples: Vec<Vec<u8>> = samples.iter().map(|text: &String| text.as_bytes().to_vec()).collect();
    mutations::drive(&samples, 20_000, reply::property);
}
