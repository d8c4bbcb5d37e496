//! The measurements at their smoke size: every method of every pipeline does the same.

use fusewire_kernels::Level;
use fusewire_kernels::measure::{Effort, Plan, checks, pipelines};

#[test]
fn every_method_of_every_pipeline_agrees() {
    for level in Level::available() {
        let mut lines = 0;
        let sizes = [256, 1408, 4096 + 8, 16_384];
        let (wanted, begins) = (|_: &str| true, |_: &str, _: usize| {});
        let mut plan =
            Plan { level, sizes: &sizes, effort: Effort::SMOKE, wanted: &wanted, begins: &begins };
        pipelines(&plan, &mut |line| {
            lines += 1;
            assert!(line.integrated > 0.0 && line.blocked > 0.0 && line.sequential > 0.0);
            let reference = line.pipeline.starts_with("copy")
                || line.pipeline.contains("gcm")
                || line.pipeline.contains("poly1305");
            assert_eq!(line.reference.is_some(), reference, "{}", line.pipeline);
            assert!(line.level == level.name());
        });
        assert_eq!(lines, sizes.len() * 14, "seven pipelines, two directions");
        let mut forms = Vec::new();
        let wanted = |name: &str| name == "cxor";
        plan.wanted = &wanted;
        checks(&plan, &mut |line| forms.push((line.function, line.form)));
        assert!(forms.contains(&("cxor", "op4")) && forms.contains(&("cxor", "load_only")));
        assert!(forms.iter().all(|(function, _)| *function == "cxor"));
    }
}
