//! Runs the compiled programs as the kernel would, for both architectures.

use super::*;

const AUDIT_X86_64: u32 = 0xc000_003e;
const AUDIT_AARCH64: u32 = 0xc000_00b7;
const AUDIT_I386: u32 = 0x4000_0003;
const KILL_PROCESS: u32 = 0x8000_0000;
const ALLOW: u32 = RETURN_ALLOW;

fn errno(number: u32) -> u32 {
    0x0005_0000 | number
}

/// The part of classic BPF that such programs use.
fn run(program: &[sock_filter], audit: u32, number: u32, arguments: [u64; 6]) -> u32 {
    let mut data = Vec::new();
    data.extend(number.to_ne_bytes());
    data.extend(audit.to_ne_bytes());
    data.extend(0_u64.to_ne_bytes());
    data.extend(arguments.into_iter().flat_map(u64::to_ne_bytes));
    let (mut at, mut accumulator) = (0, 0_u32);
    loop {
        let one = &program[at];
        let branch = |yes: bool| at + 1 + usize::from(if yes { one.jt } else { one.jf });
        at = match one.code {
            0x20 => {
                let offset = one.k as usize;
                accumulator = u32::from_ne_bytes(data[offset..offset + 4].try_into().unwrap());
                at + 1
            }
            0x54 => {
                accumulator &= one.k;
                at + 1
            }
            JUMP => at + 1 + one.k as usize,
            0x15 => branch(accumulator == one.k),
            0x25 => branch(accumulator > one.k),
            0x35 => branch(accumulator >= one.k),
            RETURN => return one.k,
            other => panic!("instruction {other:#x} at {at}"),
        };
    }
}

struct Machine {
    program: BpfProgram,
    rules: Rules,
    architecture: TargetArch,
}

impl Machine {
    fn new(architecture: TargetArch) -> Self {
        let rules = Rules::built_in().unwrap();
        Self { program: program(&rules, architecture).unwrap(), rules, architecture }
    }

    fn call(&self, name: &str, arguments: [u64; 6]) -> u32 {
        let number = number(&self.rules.0[name], self.architecture).unwrap();
        let audit = if self.architecture == TargetArch::x86_64 { AUDIT_X86_64 } else { AUDIT_AARCH64 };
        run(&self.program, audit, u32::try_from(number).unwrap(), arguments)
    }
}

#[test]
fn every_call_gets_what_the_file_says_on_both_architectures() {
    for architecture in [TargetArch::x86_64, TargetArch::aarch64] {
        let machine = Machine::new(architecture);
        let mut looked_at = 0;
        for (name, rule) in &machine.rules.0 {
            if number(rule, architecture).is_none() || !rule.unless.is_empty() {
                continue;
            }
            let expected = match rule.verdict {
                Verdict::Allow => ALLOW,
                Verdict::Refuse(error) => errno(u32::from(error)),
            };
            assert_eq!(machine.call(name, [u64::MAX; 6]), expected, "{name} on {architecture:?}");
            looked_at += 1;
        }
        assert!(looked_at > 300, "{looked_at}");
    }
}

#[test]
fn conditions_look_at_what_the_kernel_looks_at() {
    let high = 0x5_0000_0000;
    for architecture in [TargetArch::x86_64, TargetArch::aarch64] {
        let machine = Machine::new(architecture);
        for (name, argument, value, expected) in [
            ("clone", 0, 0x003d_0f00, ALLOW),
            ("clone", 0, 17, ALLOW),
            ("clone", 0, 0x1000_0000 | 17, errno(1)),
            ("clone", 0, 0x0002_0000 | high, errno(1)),
            ("unshare", 0, 0x400, ALLOW),
            ("unshare", 0, 0x80, errno(1)),
            ("unshare", 0, 0x4000_0000, errno(1)),
            ("socket", 0, 1, ALLOW),
            ("socket", 0, 16, ALLOW),
            ("socket", 0, 40, errno(97)),
            ("socket", 0, 40 | high, errno(97)),
            ("socket", 0, 17, errno(97)),
            ("socket", 0, 38, errno(97)),
            ("socketpair", 0, 1, ALLOW),
            ("socketpair", 0, 30, errno(97)),
            ("ioctl", 1, 0x5401, ALLOW),
            ("ioctl", 1, 0x5412, errno(1)),
            ("ioctl", 1, 0x5412 | high, errno(1)),
            ("ioctl", 1, 0x541c, errno(1)),
            ("personality", 0, 0xffff_ffff, ALLOW),
            ("personality", 0, 0x4_0000, ALLOW),
            ("personality", 0, 0x40_0000, errno(1)),
        ] {
            let mut arguments = [0; 6];
            arguments[argument] = value;
            assert_eq!(machine.call(name, arguments), expected, "{name} {value:#x} on {architecture:?}");
        }
    }
}

#[test]
fn a_socket_is_judged_by_family_type_and_protocol() {
    let (high, flags) = (0x5_0000_0000, 0o2_004_000);
    let (no_right, no_protocol) = (errno(1), errno(93));
    for architecture in [TargetArch::x86_64, TargetArch::aarch64] {
        let machine = Machine::new(architecture);
        let call = |family, kind, protocol| machine.call("socket", [family, kind, protocol, 0, 0, 0]);
        for family in [2, 10] {
            for (kind, protocol, expected) in [
                (1, 0, ALLOW),
                (1, 6, ALLOW),
                (2, 0, ALLOW),
                (2, 17, ALLOW),
                (1 | flags, 6, ALLOW),
                (2 | flags | high, 17 | high, ALLOW),
                (3, 1, no_right),
                (3 | flags, 255, no_right),
                (3, 6, no_right),
                (5, 132, no_right),
                (10, 0, no_right),
                (0, 0, no_right),
                (15, 0, no_right),
                (2, 1, no_protocol),
                (2, 136, no_protocol),
                (1, 132, no_protocol),
                (1, 262, no_protocol),
                (1 | flags, 262 | high, no_protocol),
            ] {
                assert_eq!(call(family, kind, protocol), expected, "{family} {kind:#x} {protocol}");
                assert_eq!(call(family | high, kind, protocol), expected, "{family} {kind:#x} {protocol}");
            }
        }
        for kind in [1, 2, 5, 1 | flags] {
            assert_eq!(call(1, kind, 0), ALLOW, "of the same machine: every kind");
        }
        for kind in [2, 3, 3 | flags] {
            assert_eq!(call(16, kind, 0), ALLOW);
            for protocol in [4, 9, 12, 15, 16, 0x1_0000] {
                assert_eq!(call(16, kind, protocol), no_protocol, "netlink {protocol}");
            }
        }
    }
}

#[test]
fn other_abis_and_unknown_numbers_get_nowhere() {
    let machine = Machine::new(TargetArch::x86_64);
    assert_eq!(run(&machine.program, AUDIT_I386, 3, [0; 6]), KILL_PROCESS);
    assert_eq!(run(&machine.program, AUDIT_AARCH64, 3, [0; 6]), KILL_PROCESS);
    let x32 = 0x4000_0000;
    for number in [x32, x32 | 1, x32 | 165, x32 | 520, 470, 600, u32::MAX] {
        assert_eq!(run(&machine.program, AUDIT_X86_64, number, [0; 6]), errno(38), "{number:#x}");
    }
}

#[test]
fn the_program_is_small_and_quickly_made() {
    let started = std::time::Instant::now();
    for _ in 0..20 {
        assert!(super::super::filter().unwrap().len() / 8 < PROGRAM_MAX);
    }
    let each = started.elapsed() / 20;
    assert!(each < std::time::Duration::from_millis(20), "{each:?}");
}
