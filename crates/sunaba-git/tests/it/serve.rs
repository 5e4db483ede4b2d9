//! What a push may make the server do.

use std::io::Write as _;
use std::process::{Command, Stdio};

use flate2::{Compression, write::ZlibEncoder};
use nix::sys::resource::{UsageWho, getrusage};
use sunaba_git::Service;

use crate::support::World;

const MIB: usize = 1 << 20;

/// A pack of a few kilobytes whose second object is made of the first, again and again: `unfolded` bytes.
fn bomb(unfolded: usize) -> Vec<u8> {
    let base = vec![0; 16 * MIB];
    let mut delta = number(base.len());
    delta.extend(number(unfolded));
    let mut left = unfolded;
    while left > 0 {
        let size = left.min(16 * MIB - 1);
        // Copy `size` bytes from the start of the base.
        delta.push(0b1111_0000);
        delta.extend(&size.to_le_bytes()[..3]);
        left -= size;
    }
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
    let first = pack.len();
    pack.extend(header(3, base.len()));
    pack.extend(deflated(&base));
    let distance = pack.len() - first;
    pack.extend(header(6, delta.len()));
    pack.extend(distance_back(distance));
    pack.extend(deflated(&delta));
    let sum = sha1(&pack);
    pack.extend(sum);
    pack
}

fn number(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn header(kind: u8, size: usize) -> Vec<u8> {
    let first = kind << 4 | (size & 0xf) as u8;
    match size >> 4 {
        0 => vec![first],
        rest => [vec![first | 0x80], number(rest)].concat(),
    }
}

fn distance_back(mut distance: usize) -> Vec<u8> {
    let mut bytes = vec![(distance & 0x7f) as u8];
    while distance > 0x7f {
        distance = (distance >> 7) - 1;
        bytes.insert(0, (distance & 0x7f) as u8 | 0x80);
    }
    bytes
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn sha1(bytes: &[u8]) -> Vec<u8> {
    let mut program =
        Command::new("sha1sum").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sha1sum runs");
    program.stdin.take().unwrap().write_all(bytes).unwrap();
    let text = String::from_utf8(program.wait_with_output().unwrap().stdout).unwrap();
    (0..40).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn push_of(pack: &[u8]) -> Vec<u8> {
    let order = format!("{} {} refs/heads/x\0report-status", "0".repeat(40), "1".repeat(40));
    let mut body = format!("{:04x}{order}0000", order.len() + 4).into_bytes();
    body.extend(pack);
    body
}

#[tokio::test]
async fn a_few_bytes_that_unfold_into_gigabytes_are_refused_at_the_bound() {
    let world = World::new();
    let mirror = world.mirror().await;
    let pack = bomb(3 << 30);
    assert!(pack.len() < 64 * 1024, "{} bytes", pack.len());
    let mut report = Vec::new();
    let pushed = mirror.rpc(Service::ReceivePack, None, &push_of(&pack)[..], &mut report).await;
    let said = String::from_utf8_lossy(&report).into_owned();
    assert!(said.contains("unpack ") && !said.contains("unpack ok"), "{said:?} {pushed:?}");
    let peak_kib = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss();
    assert!(peak_kib < 1_200_000, "a git used {peak_kib} KiB");
}

#[tokio::test]
async fn what_fits_is_taken() {
    let world = World::new();
    let mirror = world.mirror().await;
    let mut report = Vec::new();
    // The objects are taken; the commit that the ref should be at is not among them.
    let pushed = mirror.rpc(Service::ReceivePack, None, &push_of(&bomb(64 * MIB))[..], &mut report).await;
    let said = String::from_utf8_lossy(&report).into_owned();
    assert!(said.contains("unpack ok") && said.contains("ng refs/heads/x"), "{said:?} {pushed:?}");
}
