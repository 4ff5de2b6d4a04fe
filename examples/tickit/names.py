"""Words of which TICKIT's rows are made: places, people, works. Nobody living and no company is meant."""

from __future__ import annotations

CITIES: tuple[tuple[str, str], ...] = (
    ("New York City", "NY"), ("Buffalo", "NY"), ("Rochester", "NY"), ("Los Angeles", "CA"), ("San Francisco", "CA"),
    ("San Diego", "CA"), ("Oakland", "CA"), ("Sacramento", "CA"), ("Anaheim", "CA"), ("San Jose", "CA"),
    ("Chicago", "IL"), ("Springfield", "IL"), ("Houston", "TX"), ("Dallas", "TX"), ("San Antonio", "TX"),
    ("Austin", "TX"), ("Phoenix", "AZ"), ("Tucson", "AZ"), ("Philadelphia", "PA"), ("Pittsburgh", "PA"),
    ("Las Vegas", "NV"), ("Reno", "NV"), ("Boston", "MA"), ("Worcester", "MA"), ("Denver", "CO"),
    ("Colorado Springs", "CO"), ("Seattle", "WA"), ("Tacoma", "WA"), ("Portland", "OR"), ("Eugene", "OR"),
    ("Miami", "FL"), ("Orlando", "FL"), ("Tampa", "FL"), ("Jacksonville", "FL"), ("Atlanta", "GA"),
    ("Savannah", "GA"), ("Detroit", "MI"), ("Grand Rapids", "MI"), ("Cleveland", "OH"), ("Columbus", "OH"),
    ("Cincinnati", "OH"), ("Minneapolis", "MN"), ("Saint Paul", "MN"), ("Milwaukee", "WI"), ("Madison", "WI"),
    ("Kansas City", "MO"), ("Saint Louis", "MO"), ("Nashville", "TN"), ("Memphis", "TN"), ("Charlotte", "NC"),
    ("Raleigh", "NC"), ("Charleston", "SC"), ("Baltimore", "MD"), ("Richmond", "VA"), ("New Orleans", "LA"),
    ("Indianapolis", "IN"), ("Louisville", "KY"), ("Oklahoma City", "OK"), ("Salt Lake City", "UT"),
    ("Albuquerque", "NM"), ("Omaha", "NE"), ("Boise", "ID"), ("Honolulu", "HI"), ("Anchorage", "AK"),
    ("Toronto", "ON"), ("Ottawa", "ON"), ("Vancouver", "BC"), ("Calgary", "AB"), ("Edmonton", "AB"),
    ("Newark", "NJ"), ("Hartford", "CT"), ("Providence", "RI"), ("Des Moines", "IA"), ("Wichita", "KS"),
)  # fmt: skip

VENUE_KINDS: tuple[str, ...] = (
    "Arena", "Theatre", "Stadium", "Opera House", "Concert Hall", "Ballpark", "Amphitheatre", "Playhouse",
    "Music Hall", "Pavilion", "Coliseum", "Auditorium",
)  # fmt: skip

VENUE_PREFIXES: tuple[str, ...] = ("", "Grand ", "Riverside ", "Old ", "Union ", "Lakeside ")

FIRST_NAMES: tuple[str, ...] = (
    "Ada", "Adrian", "Alice", "Amara", "Andre", "Anna", "Arthur", "Beatrice", "Bella", "Boris", "Bruno", "Camilla",
    "Carla", "Cedric", "Chloe", "Clara", "Colin", "Dana", "David", "Diego", "Dora", "Edgar", "Elena", "Eli", "Emma",
    "Erik", "Esther", "Fabian", "Fatima", "Felix", "Fiona", "Frank", "Gala", "George", "Grace", "Hana", "Hector",
    "Helen", "Hugo", "Ida", "Igor", "Ines", "Iris", "Ivan", "Jack", "Jade", "Jana", "Jonas", "Julia", "Kai", "Karen",
    "Kevin", "Lara", "Leo", "Lila", "Louis", "Lucy", "Lydia", "Magnus", "Mara", "Marco", "Maya", "Mei", "Milo",
    "Mona", "Nadia", "Nina", "Noah", "Nora", "Olga", "Omar", "Oscar", "Paula", "Peter", "Priya", "Quinn", "Rafael",
    "Rosa", "Ruth", "Sam", "Selma", "Silas", "Sofia", "Stella", "Tariq", "Thea", "Theo", "Tina", "Uma", "Vera",
    "Victor", "Violet", "Walter", "Wanda", "Xenia", "Yara", "Yusuf", "Zoe",
)  # fmt: skip

LAST_NAMES: tuple[str, ...] = (
    "Abbott", "Adler", "Alvarez", "Baker", "Banks", "Barros", "Becker", "Bishop", "Blake", "Brandt", "Burke", "Carver",
    "Castro", "Chen", "Clarke", "Cole", "Costa", "Cross", "Dalton", "Dawson", "Diaz", "Dixon", "Drake", "Dunn",
    "Ellis", "Engel", "Evans", "Farrell", "Fischer", "Flores", "Foster", "Fox", "Garcia", "Gibson", "Gomez", "Grant",
    "Gupta", "Hale", "Hansen", "Harper", "Hayes", "Hoffman", "Holt", "Hughes", "Ivanova", "Jensen", "Kane", "Keller",
    "Khan", "Kim", "Klein", "Kovacs", "Lam", "Lane", "Larsen", "Lowe", "Lopez", "Marsh", "Mendez", "Meyer", "Mills",
    "Moreno", "Moss", "Nash", "Nguyen", "Novak", "Olsen", "Ortiz", "Owens", "Park", "Patel", "Perez", "Petrov",
    "Pierce", "Quist", "Ramos", "Reed", "Reyes", "Rivera", "Rossi", "Sato", "Schmidt", "Shah", "Silva", "Singh",
    "Stone", "Sutton", "Tanaka", "Torres", "Tran", "Vance", "Vargas", "Vogel", "Wagner", "Walsh", "Weber", "West",
    "Wolf", "Wong", "Yilmaz", "Young", "Zhang", "Zimmer",
)  # fmt: skip

# catid, catgroup, catname, catdesc: the eleven rows of the original.
CATEGORIES: tuple[tuple[int, str, str, str], ...] = (
    (1, "Sports", "MLB", "Major League Baseball"),
    (2, "Sports", "NHL", "National Hockey League"),
    (3, "Sports", "NFL", "National Football League"),
    (4, "Sports", "NBA", "National Basketball Association"),
    (5, "Sports", "MLS", "Major League Soccer"),
    (6, "Shows", "Musicals", "Musical theatre"),
    (7, "Shows", "Plays", "All non-musical theatre"),
    (8, "Shows", "Opera", "All opera and light opera"),
    (9, "Concerts", "Pop", "All rock and pop music concerts"),
    (10, "Concerts", "Jazz", "All jazz singers and bands"),
    (11, "Concerts", "Classical", "All symphony, concerto, and choir concerts"),
)

# Works by the category's name; sports events are named after two cities instead.
WORKS: dict[str, tuple[str, ...]] = {
    "Musicals": (
        "Show Boat", "Oklahoma!", "Carousel", "Kiss Me, Kate", "South Pacific", "The King and I", "Guys and Dolls",
        "My Fair Lady", "West Side Story", "Gypsy", "Camelot", "Hello, Dolly!", "Fiddler on the Roof",
        "Man of La Mancha", "Cabaret", "Pippin", "Chicago", "The Wiz", "Brigadoon", "Anything Goes",
    ),
    "Plays": (
        "Macbeth", "Hamlet", "King Lear", "Othello", "The Tempest", "Twelfth Night", "As You Like It", "Richard III",
        "Antigone", "Electra", "Medea", "Lysistrata", "Tartuffe", "The Misanthrope", "The Seagull", "Uncle Vanya",
        "The Cherry Orchard", "A Doll's House", "Hedda Gabler", "Peer Gynt", "Pygmalion", "Saint Joan",
        "The Importance of Being Earnest", "Cyrano de Bergerac",
    ),
    "Opera": (
        "Carmen", "Tosca", "La Boheme", "Madama Butterfly", "Turandot", "Aida", "La Traviata", "Rigoletto", "Otello",
        "Falstaff", "The Magic Flute", "Don Giovanni", "The Marriage of Figaro", "Fidelio", "Gotterdammerung",
        "Das Rheingold", "Die Walkure", "Siegfried", "Lohengrin", "Salome", "The Barber of Seville",
    ),
    "Pop": (
        "Midsummer Pop Festival", "Electric Harbor Tour", "Neon River Live", "City Lights Concert", "Golden Hits Night",
        "Summer Wave Festival", "Paper Lanterns Live", "Velvet Morning Tour", "Northern Echo Live",
        "Starlight Parade", "Desert Bloom Festival", "Rooftop Sessions", "New Year Pop Gala", "Open Air Rock Night",
    ),
    "Jazz": (
        "Midnight Jazz Session", "Big Band Gala", "Blue Room Quartet", "Riverboat Swing", "Harbor Jazz Festival",
        "Late Night Bebop", "Cool Jazz Evening", "Dixieland Brunch", "Latin Jazz Fiesta", "Winter Jazz Festival",
    ),
    "Classical": (
        "Beethoven: Symphony No. 9", "Mozart: Requiem", "Bach: St Matthew Passion", "Handel: Messiah",
        "Vivaldi: The Four Seasons", "Brahms: A German Requiem", "Dvorak: New World Symphony", "Holst: The Planets",
        "Haydn: The Creation", "Mahler: Symphony No. 2", "Verdi: Requiem", "Chopin: Piano Concerto No. 1",
    ),
}  # fmt: skip
