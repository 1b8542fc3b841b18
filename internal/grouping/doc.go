// Package grouping derives PodGroups from the objects that pods belong to, so that their users write none: a Job, a JobSet, a
// replica of a LeaderWorkerSet.
//
// A [Rule] is data: where an object of its kind says how many pods it has, in which roles and replicas. [BuiltIn] are the
// rules that are there, [FromArgs] reads those of operators. No framework's module is imported: objects are unstructured, and
// a kind costs an informer only once a profile asks for it ([Follower]).
//
// [Resolver] knows which pods belong to which object, by owner references and the frameworks' labels, and from that to which
// group. Pods are never changed; what is asked everywhere is [Resolver.GroupOf]. What an object's pods are is settled while some
// of them have a node: a root that changes shape is taken at its word with its next run. A pod of which not all is known is
// held back, with the reason ([Resolver.Hold]): taken for a single pod, it would start its gang in part.
//
// The PodGroups themselves are written by internal/controller, on the leader.
package grouping
