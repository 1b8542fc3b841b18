// Package gang knows what a PodGroup is to the scheduler, whichever API it is of ([Group], [Source]): which Pods
// are its members ([GroupOf], [Members]), whether they may be considered at all ([Gate]), and where a gang stands
// between the moment its members are complete and the moment they have nodes ([Registry]).
//
// It reads objects and keeps state; it calls no API and knows nothing of the scheduling framework. The
// plugins in internal/scheduler drive the Registry, the controllers in internal/controller report on it.
package gang
