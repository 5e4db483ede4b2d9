use sunaba_git::{Error, TreeFile};

use crate::support::World;

#[tokio::test]
async fn a_commit_is_read_without_its_work_tree() {
    let world = World::new();
    std::fs::create_dir(world.repo.join("sub")).unwrap();
    std::os::unix::fs::symlink("README.md", world.repo.join("link")).unwrap();
    let commit = world.commit("sub/go.sum", "sums\n");
    std::fs::write(world.repo.join("README.md"), "not committed").unwrap();
    let mirror = world.mirror().await;

    let files = mirror.files_at(&commit).await.unwrap();
    let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["README.md", "link", "sub/go.sum"]);
    let link = &files[1];
    assert!(matches!(link, TreeFile { ordinary: false, .. }), "{link:?}");

    let read = async |path: &str, max| mirror.read_file(&files, path, max).await;
    assert_eq!(read("README.md", 100).await.unwrap().unwrap(), b"hello\n");
    assert_eq!(read("sub/go.sum", 5).await.unwrap().unwrap(), b"sums\n");
    for nothing in ["link", "sub", "absent", "*.md", "../repo/README.md"] {
        let found = read(nothing, 100).await.unwrap_or(None);
        assert_eq!(found, None, "{nothing}");
    }
    let large = read("README.md", 3).await.unwrap_err();
    assert!(matches!(large, Error::TooLarge { .. }), "{large}");
}
