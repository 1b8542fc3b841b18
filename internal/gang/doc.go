// Package gang models PodGroups for the scheduler, from either API ([Group], [Source]). It finds
// their member pods ([GroupOf], [Members]) and decides whether the members are gated ([Gate]). It
// reads the members of groups into the records of internal/engine, which follow how long each group
// is whole ([Runs]).
//
// The package reads objects and calls no API. It does not depend on the scheduling framework.
package gang
