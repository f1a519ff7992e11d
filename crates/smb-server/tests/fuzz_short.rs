//! A short fuzzing run on stable Rust: every target on mutations of its seeds, the same ones each time. `FUZZ_ROUNDS` makes
//! it longer and `FUZZ_SEED` another. Inputs that once failed lie in `fuzz/regressions/<target>/` and come first.

mod util;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;

use util::Rng;
use util::targets::{TARGETS, Target};

/// Inputs of the cheapest targets.
const ROUNDS: usize = 4000;
/// Inputs grow no longer than this.
const MAX_BYTES: usize = 8 << 10;

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).ok().map_or(default, |text| text.parse().expect("a number"))
}

/// One change somewhere.
fn mutate(input: &mut Vec<u8>, others: &[Vec<u8>], rng: &mut Rng) {
    if input.is_empty() {
        input.push(rng.next() as u8);
    }
    let at = rng.below(input.len());
    match rng.below(9) {
        0 => input[at] ^= 1 << rng.below(8),
        1 => input[at] = rng.next() as u8,
        2 => input[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff]),
        3 => input.truncate(at),
        4 => input.insert(at, rng.next() as u8),
        5 => drop(input.drain(at..(at + 1 + rng.below(8)).min(input.len()))),
        6 => {
            let value = *rng.pick(&[0u32, 1, 0xff, 0xffff, 0x1_0000, 0x7fff_ffff, 0x8000_0000, u32::MAX]);
            let width = *rng.pick(&[2, 4]);
            let end = (at + width).min(input.len());
            input[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        7 => {
            let piece = input[at..(at + 1 + rng.below(16)).min(input.len())].to_vec();
            input.splice(at..at, piece);
        }
        _ => {
            let other = rng.pick(others);
            let from = rng.below(other.len());
            input.truncate(at);
            input.extend(&other[from..]);
        }
    }
    input.truncate(MAX_BYTES);
}

fn run(target: &Target, input: &[u8]) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(input))) {
        let hex: String = input.iter().map(|b| format!("{b:02x}")).collect();
        eprintln!("target {} fails on {hex}", target.name);
        resume_unwind(panic);
    }
}

fn regressions(target: &Target) -> Vec<Vec<u8>> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions").join(target.name);
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files.map(|file| std::fs::read(file.path()).unwrap()).collect()
}

#[test]
fn every_target_takes_whatever_comes() {
    let rounds = number("FUZZ_ROUNDS", ROUNDS);
    let mut rng = Rng::new(number("FUZZ_SEED", 1) as u64);
    for target in TARGETS {
        regressions(target).iter().for_each(|input| run(target, input));
        let mut corpus = (target.seeds)();
        corpus.iter().for_each(|input| run(target, input));
        for _ in 0..rounds.div_ceil(target.cost) {
            let mut input = rng.pick(&corpus).clone();
            for _ in 0..1 + rng.below(4) {
                mutate(&mut input, &corpus, &mut rng);
            }
            run(target, &input);
            // Changes on changes go further from the seeds.
            if corpus.len() < 200 && rng.one_in(20) && !input.is_empty() {
                corpus.push(input);
            }
        }
    }
}
