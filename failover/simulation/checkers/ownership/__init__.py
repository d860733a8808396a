"""Who owns which partition or active task, by what members say and are told."""
