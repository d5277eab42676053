"""The rules of the pipeline, one a file: ``plan -> plan | NotApplicable``. `pipeline.STAGES` has their order."""
