"""The acceptance lines of the systems that Spellbook was described as, one file each, named after their promises."""
