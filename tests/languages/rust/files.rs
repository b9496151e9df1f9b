use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{symlink, PermissionsExt};

fn main() -> std::io::Result<()> {
    let dir = std::env::temp_dir().join(format!("x-{}", std::process::id()));
    fs::create_dir_all(dir.join("a/b"))?;
    writeln!(fs::File::create(dir.join("a/b/ä.txt"))?, "grüße\nzwei")?;
    fs::set_permissions(dir.join("a/b/ä.txt"), fs::Permissions::from_mode(0o640))?;
    symlink("b/ä.txt", dir.join("a/link"))?;
    let lines: Vec<String> = BufReader::new(fs::File::open(dir.join("a/link"))?).lines().collect::<Result<_, _>>()?;
    println!("{lines:?} {:o}", fs::metadata(dir.join("a/link"))?.permissions().mode() & 0o777);
    let mut names: Vec<_> = fs::read_dir(dir.join("a"))?.map(|e| e.unwrap().file_name()).collect();
    names.sort();
    println!("{names:?}");
    fs::remove_dir_all(&dir)?;
    println!("{} {:?}", dir.exists(), fs::File::open("/nonexistent").unwrap_err().kind());
    Ok(())
}
