//! Experiments whose output nobody reads.

use std::process::Command;

#[test]
fn a_reader_that_has_gone_ends_no_experiment() {
    for what in ["list", "check"] {
        let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("closed");
        std::fs::create_dir_all(&folder).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_experiments"));
        command.arg(what).arg("--results").arg(&folder).arg("--figures").arg(&folder);
        // Pipes whose readers have gone.
        command.stdout(std::io::pipe().unwrap().1).stderr(std::io::pipe().unwrap().1);
        assert_eq!(command.status().unwrap().code(), Some(0), "{what}");
    }
}
