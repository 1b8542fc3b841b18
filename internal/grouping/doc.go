// Package grouping derives PodGroups from the objects that pods belong to, such as a Job, a JobSet,
// or a replica of a LeaderWorkerSet. So users do not write PodGroups themselves.
//
// A [Rule] is data: the fields of an object that give the number, roles and replicas of its pods.
// [BuiltIn] returns the built-in rules, and [FromArgs] parses the rules of operators. The package
// imports no framework's module, because objects are unstructured. A kind needs an informer only
// once a profile uses it ([Follower]).
//
// [Resolver] maps pods to their objects, by owner references and the frameworks' labels, and
// objects to groups. Pods are never changed; callers use [Resolver.GroupOf]. While some pods of an
// object have a node, its groups stay fixed: a root that changes shape uses the new shape in its
// next run. A pod is blocked with a reason ([Resolver.Hold]) until everything about its group is
// known. If it were scheduled as a single pod, its gang would start in part.
//
// Package internal/controller writes the PodGroups, on the leader.
package grouping
