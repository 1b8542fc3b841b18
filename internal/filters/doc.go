// Package filters answers the core's questions about nodes with the Filter plugins of a scheduler
// profile and with the scheduler's extenders.
//
// The core computes with room and asks a [core.Oracle] everything else. This package implements the
// Oracle for a real profile. [NewOracle] prepares one for a preemptor on one [snapshot.View], and
// [Oracle.Decide] asks the core:
//
//  1. PreFilter runs for one member of each class (oracle.go) and shows which filters matter to
//     the class. Extenders that filter are asked once about all nodes (extenders.go).
//  2. Filters that look only at the pod and the node object answer [Oracle.Admits]. Evicting pods
//     does not change a taint or a selector.
//  3. All filters answer [Oracle.Fits], in a simulated state. The state follows the search as it
//     removes pods, puts them back and places members (simulation.go). Most gangs need none: if
//     only room matters, nothing is simulated.
//  4. Anti-affinity between the classes of a gang that is not running is counted here
//     (antiaffinity.go), because no filter sees it.
//  5. Extenders that take part in preemption see the victims. If an extender rejects them, its
//     nodes are excluded and the core is asked again.
//
// [Resources] reports which resources the profile counts at all, and which it delegates to
// DynamicResources on nodes without them.
//
// Plugins are called as a scheduling cycle calls them. So an Oracle belongs to one cycle and must
// not be kept longer. [Simulates] reports to a PreFilter plugin that an Oracle calls it.
package filters
