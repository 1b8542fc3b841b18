// Package gang models PodGroups for the scheduler, from either API ([Group], [Source]). It finds
// their member pods ([GroupOf], [Members]) and decides whether the members are gated ([Gate]).
//
// The package reads objects and calls no API. It does not depend on the scheduling framework.
package gang
