//! The measurements at their smoke size: every method of every pipeline does the same.

use fusewire_kernels::Level;
use fusewire_kernels::measure::{Effort, checks, pipelines};

#[test]
fn every_method_of_every_pipeline_agrees() {
    for level in Level::available() {
        let mut lines = 0;
        let sizes = [256, 1408, 4096 + 8, 16_384];
        pipelines(level, &sizes, Effort::SMOKE, &mut |line| {
            lines += 1;
            assert!(line.integrated > 0.0 && line.blocked > 0.0 && line.sequential > 0.0);
            assert!(line.reference > 0.0 && line.level == level.name());
        });
        assert_eq!(lines, sizes.len() * 14, "seven pipelines, two directions");
        let mut forms = Vec::new();
        checks(level, &[1024], Effort::SMOKE, &mut |line| forms.push((line.function, line.form)));
        assert!(forms.contains(&("cxor", "op4")) && forms.contains(&("none", "load_only")));
    }
}
