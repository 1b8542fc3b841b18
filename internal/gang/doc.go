// Package gang models PodGroups for the scheduler, from either API ([Group], [Source]). It finds
// their member pods ([GroupOf], [Members]) and decides whether the members are gated ([Gate]). For
// gangs, it tracks the progress from complete members to members with nodes ([Registry]).
//
// The package reads objects and keeps state. It calls no API and does not depend on the scheduling
// framework. The plugins in internal/scheduler drive the Registry, and the controllers in
// internal/controller report its verdicts.
package gang
