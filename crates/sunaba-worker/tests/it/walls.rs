//! What `/proc`, `/dev`, memory file systems and namespaces look like inside.

use std::collections::BTreeMap;

use crate::support::{Host, provider_in, shell};
use crate::trial;

#[tokio::test]
async fn proc_tells_nothing_of_the_machine_that_could_be_used_against_it() {
    let host = Host::new().await;
    let covered = [
        "kcore",
        "keys",
        "key-users",
        "kmsg",
        "kallsyms",
        "timer_list",
        "interrupts",
        "latency_stats",
        "sched_debug",
        "sysrq-trigger",
        "acpi",
        "asound",
        "scsi",
        "bus",
        "fs",
        "irq",
        "driver",
        "mtrr",
    ];
    let here: Vec<_> =
        covered.iter().filter(|name| std::path::Path::new("/proc").join(name).exists()).collect();
    assert!(here.len() >= 6, "this kernel has some of them: {here:?}");
    let script =
        "cd /proc; for n in NAMES; do [ -d $n ] && ls $n | wc -l || { cat $n 2>/dev/null | wc -c; }; done";
    let names = here.iter().map(|name| **name).collect::<Vec<_>>().join(" ");
    let (_, output) = host.run(&script.replace("NAMES", &names)).await;
    assert_eq!(output.lines().collect::<Vec<_>>(), vec!["0"; here.len()], "{names}: {output}");
    let outside = std::fs::read_to_string("/proc/interrupts").unwrap_or_default();
    assert!(!outside.is_empty(), "outside it can be read");
    let (_, output) = host.run("find /proc/sys /proc/*.* -writable -type f 2>/dev/null | grep -v '^/proc/[0-9]' | head; test -e /sys || echo none").await;
    assert_eq!(output, "none\n", "nothing to be changed, and no /sys");
}

#[tokio::test]
async fn devices_are_the_usual_few() {
    let host = Host::new().await;
    let (_, output) = host.run("cd /dev; for n in *; do [ -L $n ] || echo $n; done | sort | tr '\\n' ' '; touch /dev/x /x /run/x 2>&1 | grep -c 'Read-only'").await;
    assert_eq!(
        output.trim(),
        "console full null ptmx pts random shm tty urandom zero 3"
            .replace("console ", "")
            .replace("ptmx ", ""),
        "{output}"
    );
    let (exit, output) = host.run("echo x > /dev/null && head -c 4 /dev/urandom | wc -c && echo y > /dev/shm/f && cat /dev/shm/f && echo z > /var/tmp/f && cat /tmp/f").await;
    assert_eq!((exit.code, output.as_str()), (Some(0), "4\ny\nz\n"));
}

#[tokio::test]
async fn memory_file_systems_are_bounded() {
    let host = Host::new().await;
    let (_, output) = host.run("df -k --output=size,target /tmp /dev/shm | tail -n 2").await;
    let sizes: BTreeMap<_, u64> = output
        .lines()
        .filter_map(|line| line.trim().split_once(' '))
        .map(|(size, target)| (target.trim().to_owned(), size.parse().unwrap()))
        .collect();
    assert_eq!(sizes, BTreeMap::from([("/tmp".to_owned(), 2 << 20), ("/dev/shm".to_owned(), 1 << 20)]));
    let writable =
        "cut -d' ' -f2,3,4 /proc/mounts | grep -E ' tmpfs rw' | cut -d' ' -f1 | sort | tr '\\n' ' '";
    let (_, output) = host.run(writable).await;
    assert_eq!(output.trim(), "/dev/shm /tmp", "no other memory can be filled");
}

#[tokio::test]
async fn no_user_namespace_can_be_made_even_without_the_filter() {
    let dir = tempfile::tempdir().unwrap();
    let unfiltered = provider_in(dir.path()).without_call_filter();
    let (exit, output) = trial::run(&unfiltered, shell("unshare -U true"), |_| {}).await.unwrap();
    assert!(matches!(exit.code, Some(1..)), "{output}");
    let outside = std::process::Command::new("unshare").args(["-U", "true"]).status().unwrap();
    assert!(outside.success(), "outside it can be made");
    let host = Host::new().await;
    let (exit, _) = host.run("unshare -U true").await;
    assert!(matches!(exit.code, Some(1..)));
}

#[tokio::test]
async fn every_namespace_is_its_own_and_so_is_the_session() {
    let host = Host::new().await;
    let kinds = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];
    let (_, output) = host.run(&format!("cd /proc/self/ns; readlink {}", kinds.join(" "))).await;
    let inside: Vec<_> = output.lines().collect();
    assert_eq!(inside.len(), kinds.len(), "{output}");
    for (kind, inside) in kinds.iter().zip(inside) {
        let outside = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        assert_ne!(outside.to_str(), Some(inside), "{kind}");
    }
    let (_, output) = host.run("cut -d: -f3 /proc/self/cgroup | sort -u; ps -o tty= -p $$ | tr -d ' '").await;
    assert_eq!(output, "/\n?\n", "its cgroup is the root of what it sees; it has no terminal");
}
