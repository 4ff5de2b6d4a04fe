"""What rows of the collection are made of."""

from __future__ import annotations

from typing import Final

# Heaviest first. Some values are what a folder's name cannot hold as it is; None is the default partition.
NATIONALITIES: Final = (
    "American", None, "German", "French", "British", "Italian", "Japanese", "Swiss", "Dutch", "Austrian", "Spanish",
    "Brazilian", "South African", "Côte d'Ivoire", "Bosnian/Herzegovinian", "Austro-Hungarian: Bohemian",
    "100% Catalan",
)  # fmt: skip
NATIONALITY_WEIGHTS: Final = (520, 180, 93, 84, 83, 53, 50, 28, 26, 24, 15, 15, 7, 3, 3, 2, 2)

GIVEN: Final = (
    "Ada", "Bruno", "Carla", "Dora", "Egon", "Flora", "Gustav", "Hanna", "Ivo", "Jeanne", "Karel", "Lucia", "Mario",
    "Nora", "Oskar", "Paula", "Remy", "Sonia", "Theo", "Uma", "Viktor", "Wanda", "Yves", "Zora",
)  # fmt: skip
FAMILY: Final = (
    "Adler", "Bellini", "Castel", "Duval", "Ebner", "Fontana", "Gross", "Holm", "Imai", "Jansen", "Keller", "Lange",
    "Moreau", "Novak", "Okada", "Palmer", "Quist", "Rossi", "Soler", "Tanner", "Urban", "Vidal", "Weiss", "Zeller",
)  # fmt: skip

SUBJECTS: Final = ("Window", "Harbour", "Figure", "Garden", "Table", "Bridge", "Mask", "Night", "Circus", "Letter")
KINDS: Final = (
    "Study of a {}",
    "{} in Blue",
    "The {}",
    "{} (plate, folio 7)",
    "Untitled: {}",
    "{} \N{EM DASH} 2nd state",
)

# Classification, medium, department, weight. The last two have characters of paths in them.
CLASSES: Final = (
    ("Print", "Etching", "Prints & Illustrated Books", 20),
    ("Photograph", "Gelatin silver print", "Photography", 22),
    ("Illustrated Book", "Lithograph", "Prints & Illustrated Books", 18),
    ("Drawing", "Pencil on paper", "Drawings", 10),
    (None, "Various", None, 8),
    ("Design", "Steel", "Architecture & Design", 8),
    ("Painting", "Oil on canvas", "Painting & Sculpture", 3),
    ("Sculpture", "Bronze", "Painting & Sculpture", 3),
    ("Mies van der Rohe Archive", "Graphite on tracing paper", "Architecture & Design", 3),
    ("Video", "Video (color, sound)", "Media and Performance Art", 2),
    ("Film/Slides", "35 mm", "Film", 1),
    ("Audio: 7\" [50%]", "Vinyl record", "Media and Performance Art", 1),
)  # fmt: skip
GIVERS: Final = ("Gift of the artist", "Purchase", "Anonymous gift", "Bequest of {}", "Gift of {}", "Exchange")
