// Package filters answers the core's questions about nodes with the Filter plugins of a scheduler profile and with the
// scheduler's extenders.
//
// The core reckons with room. What arithmetic cannot know, it asks its [core.Oracle], and this package has the one that
// stands before a real profile. [NewOracle] prepares it for one preemptor on one [snapshot.View], and [Oracle.Decide]
// asks the core:
//
//  1. PreFilter is run for one member of each class (oracle.go), and tells which filters matter to the class at all.
//     Extenders that filter are asked once about all nodes (extenders.go).
//  2. Filters that look only at the pod and the node object answer [Oracle.Admits]: a taint or a selector does not go
//     away with the pods of a node.
//  3. All filters answer [Oracle.Fits], in a simulated state that follows the search as it takes pods away, puts them
//     back and places members (simulation.go). Most gangs need none: where only room matters, nothing is simulated.
//  4. Anti-affinity between the classes of a gang that runs nowhere yet is counted here (antiaffinity.go): no filter
//     sees it.
//  5. Extenders that take part in preemption are shown the victims. Where one refuses, its nodes are barred, and the
//     core is asked again.
//
// [Resources] tells which resources the profile counts at all, and which it leaves to DynamicResources on nodes without them.
//
// Plugins are called as a scheduling cycle calls them, so everything here belongs to the cycle that asks, and an Oracle
// is not kept longer. [Simulates] tells a PreFilter plugin that it is called from here.
package filters
