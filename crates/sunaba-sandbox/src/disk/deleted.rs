//! Files that have no name any more and take disk for as long as somebody holds them.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What these processes hold of removed files on a directory's file system, in bytes; each file counts once.
///
/// A file is seen by a descriptor, as a program that runs, and as a mapping: whole where this process may look
/// through mappings (root), else as far as it is mapped.
pub fn deleted_bytes(dir: &Path, pids: &[i32]) -> std::io::Result<u64> {
    let device = fs::metadata(dir)?.dev();
    let (mut whole, mut mapped) = (HashMap::new(), HashMap::new());
    for pid in pids {
        let open = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let program = PathBuf::from(format!("/proc/{pid}/exe"));
        for path in open.map(|entry| entry.path()).chain([program]) {
            whole.extend(removed(&path, device));
        }
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for mapping in maps.lines().filter_map(|line| removed_mapping(line, device)) {
            whole.extend(removed(&PathBuf::from(format!("/proc/{pid}/map_files/{}", mapping.range)), device));
            let end: &mut u64 = mapped.entry(mapping.inode).or_default();
            *end = mapping.end.max(*end);
        }
    }
    for (inode, end) in mapped {
        whole.entry(inode).or_insert(end);
    }
    Ok(whole.values().sum())
}

/// The inode of a removed file on this device, and what it takes.
fn removed(path: &Path, device: u64) -> Option<(u64, u64)> {
    let file = fs::metadata(path).ok()?;
    let counts = file.is_file() && file.nlink() == 0 && file.dev() == device;
    counts.then(|| (file.ino(), file.blocks() * 512))
}

/// A mapping of a removed file.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'a> {
    range: &'a str,
    inode: u64,
    /// Up to where the file is mapped.
    end: u64,
}

/// Reads a line of `maps`; none if it tells of something else.
fn removed_mapping(line: &str, device: u64) -> Option<Mapping<'_>> {
    let mut words = line.strip_suffix(" (deleted)")?.split_whitespace();
    let range = words.next()?;
    let (from, to) = range.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    let offset = number(words.nth(1)?)?;
    let (major, minor) = words.next()?.split_once(':')?;
    let (major, minor) = (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?);
    if rustix::fs::makedev(major, minor) != device {
        return None;
    }
    let length = number(to)?.checked_sub(number(from)?)?;
    Some(Mapping { range, inode: words.next()?.parse().ok()?, end: offset.checked_add(length)? })
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn removed_files_count_once_while_they_are_held() {
        let root = tempfile::tempdir().unwrap();
        let own = [i32::try_from(std::process::id()).unwrap()];
        let path = root.path().join("held");
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(&vec![1; 64 << 20]).unwrap();
        let again = file.try_clone().unwrap();
        let before = deleted_bytes(root.path(), &own).unwrap();
        fs::remove_file(&path).unwrap();
        let held = deleted_bytes(root.path(), &own).unwrap() - before;
        // Other tests of this process hold theirs meanwhile, and none so much.
        assert!((60 << 20..100 << 20).contains(&held), "{held}");
        drop((file, again));
        assert!(deleted_bytes(root.path(), &own).unwrap() < before + (30 << 20));
    }

    #[test]
    fn a_mapping_tells_how_far_it_reaches() {
        let line = "7f0000000000-7f0000003000 rw-s 00001000 fe:01 4711    /workspace/a b (deleted)";
        let device = rustix::fs::makedev(0xfe, 1);
        let found = Mapping { range: "7f0000000000-7f0000003000", inode: 4711, end: 0x4000 };
        assert_eq!(removed_mapping(line, device), Some(found));
        assert_eq!(removed_mapping(line, device + 1), None);
        assert_eq!(removed_mapping(line.strip_suffix(" (deleted)").unwrap(), device), None);
    }
}
