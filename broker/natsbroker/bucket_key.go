package natsbroker

import (
	"strconv"
	"strings"
)

// token encodes a name as one token of a subject. A dot separates tokens, and names have no equals sign.
func token(name string) string { return strings.ReplaceAll(name, ".", "=") }

// ownerKey returns the key of the owner of a group.
func ownerKey(group string) string { return "owner." + token(group) }

// memberKey returns the key of a member's presence. For the member "" it is the prefix of all members.
func memberKey(group, member string) string { return "member." + token(group) + "." + member }

// partitionKey returns the key of a partition's row.
func partitionKey(group, stream string, partition int) string {
	return "partition." + token(group) + "." + stream + "." + strconv.Itoa(partition)
}

// partitionsOf returns the filter for the rows of a group.
func partitionsOf(group string) string { return "partition." + token(group) + ".>" }

// topicOf returns the topic of a row, by its key.
func topicOf(key string) string { return strings.ReplaceAll(strings.Split(key, ".")[2], "=", ".") }
