package main

// area is a part of Reprieve, such as the installation. Its tests show whether it works on a
// version of Kubernetes.
type area struct {
	// name is the heading of the area's column in the table. The other string describes the tests.
	name, what string
	tests      []tests
}

// tests selects tests of a package by their full names. An empty list of names selects all tests.
type tests struct {
	pkg   string
	names []string
	// since is the first minor version of Kubernetes that has the tested feature; 0 if all versions
	// have it.
	since uint
}

// core returns the areas to test on each version. The tests take a few minutes, and cover every
// part that depends on the API server. A listed test that does not run counts as failed, so a
// renamed or removed test is noticed.
func core() []area {
	const integration = "./test/integration/"
	return []area{
		{"Install", "the manifests are admitted, the rights are enough and no right is unused, a standby takes over", []tests{
			{pkg: integration + "deploy", names: []string{"TestInstalled", "TestRenamedAccount"}},
			{pkg: integration + "api"},
		}},
		{"Gangs", "they are placed whole or wait, follow their PodGroup, and their statuses have the reason", []tests{
			{pkg: integration + "scheduling", names: []string{
				"TestGangIsPlacedWhole", "TestGangThatDoesNotFitWaitsWhole", "TestMembersWaitForTheirPodGroup", "TestTooFewMembers",
				"TestSchedulingGatesHoldTheGang", "TestBasicGroupIsPlacedOneByOne", "TestVolumeForEachMember", "TestDeviceForEachMember",
				"TestStartTime", "TestRestart",
			}},
			{pkg: integration + "groups"},
		}},
		{"Preemption", "whole groups and single pods go, victims are told and have their time, budgets count", []tests{
			{pkg: integration + "scheduling", names: []string{
				"TestWhoIsTaken", "TestVictimsAreTold", "TestGracePeriodIsHonoured", "TestNobodyIsTaken", "TestPodGroupPriorityCounts",
				"TestDisruptionBudgets", "TestNominatedRoomIsKept",
			}},
			{pkg: integration + "preemption", names: []string{"TestVictimsAreToldAndHaveTheirTime", "TestNobodyGoesBeforeTheWholeGangFits"}},
		}},
		{"Queues", "quotas are reclaimed, limits hold, turns go round, namespaces and classes are kept to by policies and scheduler", []tests{
			{pkg: integration + "queues", names: []string{"TestReclaim", "TestReclaimedRoomIsKept", "TestLimit", "TestNames", "TestTurns"}},
			{pkg: integration + "tenancy"},
		}},
		{"Groups of `scheduling.k8s.io`", "Workloads and PodGroups of `scheduling.k8s.io`, with their feature gates on", []tests{
			{pkg: integration + "workloads", since: 35},
			{pkg: integration + "deploy", names: []string{"TestNativeWorkloadAPI"}, since: 35},
			{pkg: integration + "deploy", names: []string{"TestNativeTenant"}, since: 36},
		}},
	}
}
