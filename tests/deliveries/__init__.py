"""Deliveries of every form, by every carrier, with everything that can come and go wrong, and what must come of them.

`cases` says what there is to combine; `history` makes the events of a case, `forms` their bytes, `carriers` the files
they come in; `model` says what must be in silver and in the quarantine, `playing` lands cases and compares, and
`shrinking` makes small what failed. None of them knows how ingest decodes or orders events: all is written from the
documents.
"""
