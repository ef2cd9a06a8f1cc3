use super::{exact, names};

const AFTER_OPERATORS: &[(&str, &[&str])] = &[
    ("Orders", &["Orders"]),
    ("Orders | take 5", &["Orders"]),
    ("Orders;", &["Orders"]),
    ("Orders | join Customers on Id", &["Orders", "Customers"]),
    (
        "Orders | join kind=leftouter (Customers | where Age > 3) on Id",
        &["Orders", "Customers"],
    ),
    (
        "Orders | join kind = inner hint.strategy = shuffle Customers on $left.a == $right.b",
        &["Orders", "Customers"],
    ),
    (
        "Orders | lookup kind=leftouter Prices on Sku",
        &["Orders", "Prices"],
    ),
    ("union Orders, Returns", &["Orders", "Returns"]),
    (
        "union kind=outer withsource=From isfuzzy=true Orders, (Returns | where a == 1)",
        &["Orders", "Returns"],
    ),
    (
        "union withsource=\"From\" hint.concurrency=4 Orders, Returns | count",
        &["Orders", "Returns"],
    ),
    (
        "Orders | union (Returns), Gifts | count",
        &["Orders", "Returns", "Gifts"],
    ),
    (
        "find in (Orders, Returns) where Id == 7 project Id",
        &["Orders", "Returns"],
    ),
    (
        "search kind=case_sensitive in (Orders, Returns) \"lost\"",
        &["Orders", "Returns"],
    ),
];

const INSIDE: &[(&str, &[&str])] = &[
    (
        "Orders | where Id in ((Returns | project Id))",
        &["Orders", "Returns"],
    ),
    (
        "Orders | where Id in (Returns | project Id)",
        &["Orders", "Returns"],
    ),
    (
        "Orders | extend n = toscalar(Returns | count)",
        &["Orders", "Returns"],
    ),
    ("print n = toscalar(Returns | count)", &["Returns"]),
    ("materialize(Orders | take 1) | take 1", &["Orders"]),
    ("let last = toscalar(Orders); print last", &["Orders"]),
    ("let f = view () { Orders | take 1 }; f()", &["Orders"]),
    ("view(Orders) | take 1", &["Orders"]),
    ("let Mine = Orders; Mine | take 1", &["Orders"]),
    (
        "let Mine = Orders | where a == 1; union Mine, Returns",
        &["Orders", "Returns"],
    ),
    ("(Orders | take 1) | take 1", &["Orders"]),
    ("table('Orders') | take 1", &["Orders"]),
    ("let name = \"Orders\"; table(name) | take 1", &["Orders"]),
    (
        "external_table(\"Lake\", \"m\") | join materialized_view('Daily') on Id",
        &["Lake", "Daily"],
    ),
    (
        "['My Orders'] | join [\"It's\"] on Id",
        &["My Orders", "It's"],
    ),
    ("2024_Orders | union 7Days", &["2024_Orders", "7Days"]),
    ("union (print x = 1), Orders", &["Orders"]),
    ("evaluate preview(5, (Orders | take 3))", &["Orders"]),
    (
        "Orders | partition by Shop { Returns | where Shop == toscalar(Shop) }",
        &["Orders", "Shop", "Returns"],
    ),
    (
        "Orders | make-graph Buyer --> Seller with People on Id, (Shops | take 3) on Key",
        &["Orders", "People", "Shops"],
    ),
    (
        "let f = (T:(*), n:int) { T | take n }; f(Orders, 3)",
        &["Orders"],
    ),
    (
        "let f = (T:(*), U:(Id:long)) { T | join U on Id }; Orders | invoke f(Returns)",
        &["Orders", "Returns"],
    ),
    (
        "Orders | as Mine | join Returns on Id | union Mine",
        &["Orders", "Returns"],
    ),
    (
        "macro-expand isfuzzy=true Shops as S (S.Orders | take 1)",
        &["Orders"],
    ),
    ("#connect cluster('c')\nOrders | take 1", &["Orders"]),
    (
        "Orders | evaluate hint.distribution=single ipv4_lookup(Nets, Ip, Net, return_unmatched = true)",
        &["Orders", "Nets"],
    ),
    (
        "Orders | evaluate ipv6_lookup((Nets | take 3), Ip, Net)",
        &["Orders", "Nets"],
    ),
    ("Orders | evaluate pivot(Shop, count())", &["Orders"]),
    (
        "macro-expand isfuzzy=true Shops as S (S.Orders | take 1)",
        &["Orders"],
    ),
    ("#connect cluster('c')\nOrders | take 1", &["Orders"]),
];

#[test]
fn finds_tables_in_all_positions() {
    for (query, expected) in AFTER_OPERATORS.iter().chain(INSIDE) {
        let shape = exact(query);
        let mut found = names(&shape);
        let mut expected = expected.to_vec();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
}

#[test]
fn other_names_are_not_tables() {
    let none = [
        "",
        "  // Orders | take 1",
        "print Orders = 1",
        "range n from 1 to 10 step 1 | where n > 3",
        "datatable(Name:string, Age:int)[\"Orders\", 3] | take 1",
        "externaldata(Name:string)[@\"https://example.com/a.csv\"] with (format=\"csv\") | take 1",
        "let n = 5; let s = \"Orders\"; let d = 7d; let b = true; let o = dynamic({\"Orders\": [1, \"x|y\"]}); print n",
        "let start = ago(7d); let more = start + 1d; print more",
        "let plus = (a:int, b:int) { a + b }; print plus(1, 2)",
        "let at = datetime(2024-01-01); let until = at; print until",
        "declare query_parameters(Name:string = \"x\", Age:int = 3); print Name",
    ];
    for query in none {
        assert_eq!(names(&exact(query)), [""; 0], "{query}");
    }
    let only_orders = [
        "Orders | as Mine | union Mine",
        "Orders | fork (where a == 1 | take 2) named = (count)",
        "Orders | partition by Shop (top 3 by Sum | project Sum)",
        "Orders | facet by Shop, Day with (where Sum > 3 | take 5)",
        "Orders | mv-apply item = Items to typeof(string) on (where item has \"a\" | take 1)",
        "let Orders = Orders | where a == 1; Orders | take 1",
        "let f = (T:(*)) { T | where a == 1 }; Orders | invoke f()",
        "let n = 3; Orders | where a in (n)",
        "Orders | where a == \"x | join Returns on Id\" // union Gifts",
        "Orders | where a == @'c:\\' | extend b = ```| union Gifts\n``` | extend c = h\"| union Gifts\"",
        "Orders | evaluate bag_unpack(Bag) : (Id:long)",
        "Orders | where Bag[\"Returns\"].Gifts == 1 | extend Gifts = Bag['x']",
        "declare query_parameters(Name:string); Orders | where a == Name",
        "set truncationmaxsize = 100; Orders | take 1",
        "orders | union Orders",
    ];
    for query in only_orders {
        let shape = exact(query);
        let found: Vec<String> = names(&shape)
            .iter()
            .map(|name| name.to_lowercase())
            .collect();
        assert_eq!(found, ["orders"], "{query}");
    }
}

#[test]
fn names_of_a_body_are_local() {
    let shape = exact(
        "let f = (Orders:(*)) { let Gifts = Orders | take 1; Gifts | count }; union Orders, Gifts",
    );
    assert_eq!(names(&shape), ["Orders", "Gifts"]);
}

#[test]
fn last_name_of_a_chain_is_the_table() {
    let cases = [
        (
            "cluster('c').database('d').Orders | take 1",
            "Orders",
            "cluster('c').database('d').Orders",
        ),
        (
            "database(\"d\").['My Orders']",
            "My Orders",
            "database(\"d\").['My Orders']",
        ),
        (
            "database('d').table('Orders')",
            "Orders",
            "database('d').table('Orders')",
        ),
        (
            "workspace(\"w\").Orders | where a == 1",
            "Orders",
            "workspace(\"w\").Orders",
        ),
        (
            "print toscalar(app('a').Orders | count)",
            "Orders",
            "app('a').Orders",
        ),
        ("arg(\"\").Orders", "Orders", "arg(\"\").Orders"),
        (
            "adx('https://example.com/d').Orders | count",
            "Orders",
            "adx('https://example.com/d').Orders",
        ),
        (
            "union resource('r').Orders",
            "Orders",
            "resource('r').Orders",
        ),
        ("sales.Orders | take 1", "Orders", "sales.Orders"),
    ];
    for (query, table, chain) in cases {
        let shape = exact(query);
        assert_eq!(names(&shape), [table], "{query}");
        assert_eq!(shape.qualified, [chain], "{query}");
    }
}

#[test]
fn patterns_are_listed_separately() {
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("union App*, Orders", &["App*"], &["Orders"]),
        ("union withsource=T *_CL", &["*_CL"], &[]),
        ("union * | where a == 1", &["*"], &[]),
        (
            "find in (A*B, database('d').C*) where x == 1",
            &["A*B", "C*"],
            &[],
        ),
        ("search in (App*, Orders) \"x\"", &["App*"], &["Orders"]),
        ("union 2024*", &["2024*"], &[]),
    ];
    for (query, wildcards, tables) in cases {
        let shape = exact(query);
        assert_eq!(shape.wildcards, *wildcards, "{query}");
        assert_eq!(names(&shape), *tables, "{query}");
        assert!(!shape.all_tables, "{query}");
    }
}

#[test]
fn search_without_tables_reads_all() {
    for query in [
        "search \"lost\"",
        "search *",
        "find where Id == 7",
        "search kind=case_sensitive \"x\" | take 3",
    ] {
        let shape = exact(query);
        assert!(shape.all_tables && shape.wildcards.is_empty(), "{query}");
    }
    for query in [
        "Orders | search \"lost\"",
        "search in (Orders) \"x\"",
        "Orders | where a == 1",
    ] {
        assert!(!exact(query).all_tables, "{query}");
    }
}

#[test]
fn calls_in_table_position_are_functions() {
    let cases: &[(&str, &[&str])] = &[
        ("Recent(7d) | take 1", &["Recent"]),
        ("union Recent(), Orders", &["Recent"]),
        ("Orders | join Recent() on Id", &["Recent"]),
        ("let mine = Recent('a'); mine | take 1", &["Recent"]),
        (
            "let mine = Recent('a') | project Id; Orders | where Id in (mine)",
            &["Recent"],
        ),
        ("let start = ago(7d); Orders | where a > start", &[]),
        ("let f = () { Orders }; f() | take 1", &[]),
        ("Orders | extend a = tolower(b) | invoke Enrich(\"x\")", &[]),
        ("database('d').Recent(3) | take 1", &["Recent"]),
    ];
    for (query, functions) in cases {
        assert_eq!(exact(query).unknown_functions, *functions, "{query}");
    }
}

#[test]
fn invisible_white_space_is_white_space() {
    let shape = exact("\u{feff}Orders\u{a0}|\u{200b}join\u{a0}Returns\u{200b}on Id");
    assert_eq!(names(&shape), ["Orders", "Returns"]);
}
