//! Parsers against random and damaged input.

#[path = "../../../../fuzz/mutations.rs"]
mod mutations;
mod reply;
mod samples;

use aquifer_base::Found;
use aquifer_base::samples::SampleHead;

#[test]
fn replies() {
    let stats = serde_json::to_string(&aquifer::Stats::default()).expect("numbers can be written");
    let samples = [
        format!("{{\"pid\":4711,\"version\":\"0.1.0\",\"stats\":{stats}}}"),
        "{\"pid\":1,\"version\":\"\\u001b[2J\",\"stats\":{\"new\":18446744073709551615}}".into(),
        "{\"pid\":1,\"check\":\"ok\"}".into(),
        "{\"pid\":1,\"check\":\"failed\",\"problem\":\"slot 3 has two owners\"}".into(),
        "{\"pid\":1,\"latency\":{\"upper_ns\":[1024,2048,18446744073709551615],\"count\":[3,0,9]}}".into(),
        "{\"pid\":1,\"version\":\"1\",\"stats\":{},\"remote\":{\"parts\":3,\"placed\":2,\"pages\":{\"remote_reads\":7},\"donors\":[\
            {\"address\":\"a:1\",\"provider\":\"tcp\",\"domain\":\"r\",\"slabs\":2,\"trouble\":null,\"reads\":9,\
            \"read_latency\":{\"upper_ns\":[1024,2048],\"count\":[3,6]}}]}}"
            .into(),
        "{\"pid\":1,\"events\":{\"noted\":4,\"kept\":[{\"number\":3,\"after_ms\":1,\"unix_ms\":2,\"what\":\"slab_lost\",\
            \"donor\":\"a:1\",\"part\":0,\"why\":\"gone\"}]}}"
            .into(),
        "{\"error\":\"the heap is closing\"}".into(),
        "{\"error\":{\"deep\":[[[[[[]]]]]]}}".into(),
    ];
    let samples: Vec<Vec<u8>> = samples.iter().map(|text: &String| text.as_bytes().to_vec()).collect();
    mutations::drive(&samples, 20_000, reply::property);
}

#[test]
fn samples_of_faults() {
    let head = |pc, sp| SampleHead {
        process: 7,
        thread: 7,
        found: Found::Flash,
        duration_ns: 1000,
        address: 0x7000_0000,
        pc,
        sp,
        fp: sp.wrapping_add(16),
        lr: pc,
    };
    let lines = b"7 400000-900000 r-xp 00001000 08:01 9                  /usr/bin/x\n\
        7 7f0000000000-7f0000001000 r-xp 00000000 00:00 0                  [vdso]\n\
        8 400000-401000 r-xp 00000000 00:00 0 \n";
    let sample =
        |pc: u64, sp: u64| {
            let mut input = head(pc, sp).encode().to_vec();
            input[SampleHead::STACK_BYTES_AT] = 192;
            // Words that look like a stack: places on it, and places in the code.
            input.extend((0..24).flat_map(|at| {
                if at % 2 == 0 { sp.wrapping_add(at * 8 + 16) } else { pc + at }.to_ne_bytes()
            }));
            assert_eq!(input.len(), samples::IN_SLOT_BYTES);
            input.extend(lines);
            input
        };
    let inputs =
        [sample(0x40_1234, 0x7ffe_0000), sample(0x50_0000, 0x7ffe_0008), sample(0, u64::MAX - 100), vec![]];
    mutations::drive(&inputs, 5_000, samples::property);
}
