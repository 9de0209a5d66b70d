//! What a client says to a shim, and a shim to a client, read by fuzzers.

use tokio::runtime::Builder;

use super::{
    frame,
    protocol::{Answer, Opening, Versioned},
};

/// Frames, and what is said in them.
pub fn opening(bytes: &[u8]) {
    let Ok(runtime) = Builder::new_current_thread().build() else { return };
    runtime.block_on(async {
        let mut rest = bytes;
        while let Ok(Some(frame)) = frame::read(&mut rest).await {
            drop(frame.message::<Versioned>().map(|it| it.version));
            drop(frame.message::<Opening>());
            drop(frame.message::<Answer>());
        }
    });
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_fuzzers_begin_with_is_read() {
        let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
        for (name, check) in
            [("opening", super::opening as fn(&[u8])), ("packet", crate::fuzzing::packet)]
        {
            let mut count = 0;
            for seed in seeds.join(name).read_dir().unwrap() {
                check(&std::fs::read(seed.unwrap().path()).unwrap());
                count += 1;
            }
            assert_ne!(count, 0, "{name}");
        }
    }
}
