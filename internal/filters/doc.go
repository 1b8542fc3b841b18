// Package filters answers the core's questions about nodes with the Filter plugins of a scheduler
// profile and with the scheduler's extenders.
//
// The core computes with room and calls a [core.Oracle] for all other questions. This package
// implements the Oracle for a real profile. [NewOracle] prepares an Oracle for one preemptor and
// one [snapshot.View]. [Oracle.Decide] then calls the core:
//
//  1. PreFilter runs for one member of each class (oracle.go). It shows which filters matter to the
//     class. Extenders that filter are called once for all nodes (extenders.go).
//  2. Filters that depend only on the pod and the node object answer [Oracle.Admits]. Evicting pods
//     does not change a taint or a selector.
//  3. All filters together answer [Oracle.Fits] in a simulated state. The state follows the search
//     while it removes pods, restores them and places members (simulation.go). Most gangs depend
//     only on room. For these gangs, there is no simulated state.
//  4. The Oracle itself counts anti-affinity between the classes of a gang (antiaffinity.go). No
//     filter sees it while the gang is not running.
//  5. Extenders that take part in preemption get the victims. If an extender rejects them, their
//     nodes are excluded and the core decides again.
//
// [Resources] reports how the profile treats a resource. The profile may ignore the resource, or
// may leave it to the plugin DynamicResources on nodes that do not list it.
//
// The Oracle calls plugins as a scheduling cycle does. So it belongs to one cycle and must not be
// used later. [Simulates] tells a PreFilter plugin that an Oracle is the caller.
package filters
