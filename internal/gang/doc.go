// Package gang models PodGroups for the scheduler. It reads the PodGroups of reprieve.dev and of
// scheduling.k8s.io into one type, [Group]. It finds the member pods of a group ([GroupOf],
// [Members]) and decides whether the members are gated ([Gate]).
//
// A driver is a pod that creates its worker pods once it runs, such as a Spark driver ([IsDriver]).
// A derived group is a PodGroup that Reprieve creates for pods that name none ([Derived]). A tree
// is a CompositePodGroup with all groups below it ([Tree], [Trees]). A seal is the annotation that
// fixes the queue and priority of a pod with a node ([Seal]).
//
// The package reads objects that its callers pass, and makes no API calls. It does not depend on
// the scheduling framework.
package gang
