// Package grouping derives PodGroups from the objects that pods belong to, such as a Job, a JobSet,
// or a replica of a LeaderWorkerSet. So users need not write PodGroups.
//
// A [Rule] describes a kind of object as data: which fields have the number of pods, their roles,
// and the number of replicas. [BuiltIn] returns the built-in rules, and [FromArgs] adds the rules
// of operators. The objects are unstructured, so the package imports no framework's API module. The
// scheduler watches a kind only if a profile uses it ([Follower]).
//
// [Resolver] maps pods to objects, by owner references and by the frameworks' labels, and maps
// objects to groups. It never changes pods; callers use [Resolver.GroupOf]. The groups of an object
// stay fixed while they have running pods. A change of the object applies when these pods have
// finished.
//
// A pod is blocked ([Resolver.Hold]) until everything about its group is known. If the scheduler
// placed it as a single pod, it would start only a part of the gang.
//
// Package internal/controller writes the PodGroups, on the leader.
package grouping
